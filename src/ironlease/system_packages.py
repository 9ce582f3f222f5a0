"""The system tools that a task needs on this computer, and how the missing ones come here.

They are installed with apt-get when this is root or sudo works; a person at a terminal is asked first. Everywhere else
the refusal names the packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ironlease.console import Console
from ironlease.errors import UnfinishedError, UsageError

# Another apt on this computer (unattended-upgrades) may hold the lock for minutes.
LOCK_WAIT_SECONDS = 300
INSTALL_TIMEOUT_SECONDS = 1200
_SUDO_TIMEOUT_SECONDS = 30
# A user's PATH often lacks the folders of the administrator's tools, which are there nevertheless.
_MORE_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True)
class Tools:
    """Tools that one purpose needs, and the Debian package that each comes from."""

    purpose: str
    packages: Mapping[str, str]


def _lab() -> Tools:
    from ironlease.lab.preconditions import REQUIRED_PACKAGES  # noqa: PLC0415 - only the lab's tasks load the lab

    # Without root the lab refuses anyway, and says what to do instead.
    return Tools("to run lab hosts", REQUIRED_PACKAGES if os.geteuid() == 0 else {})


_GROUPS = {
    "ssh": lambda: Tools("to reach hosts", {"ssh": "openssh-client", "ssh-keygen": "openssh-client"}),
    "lint": lambda: Tools("to check shell scripts", {"shellcheck": "shellcheck"}),
    "lab": _lab,
}


class MissingToolsError(UsageError):
    """A system tool is missing and was not installed."""

    code = "missing-tools"


class InstallFailedError(UnfinishedError):
    """apt-get could not install what is missing."""

    code = "apt-failed"


def ensure(console: Console, groups: Sequence[str], *, task: str) -> None:
    """Install what is missing of the tools that ``task`` needs.

    Raises MissingToolsError when that is refused or impossible here, InstallFailedError when apt-get fails.
    """
    missing: dict[str, str] = {}
    purposes = []
    for tools in (_GROUPS[group]() for group in groups):
        absent = {tool: package for tool, package in tools.packages.items() if not find(tool)}
        if absent:
            missing.update(absent)
            purposes.append(tools.purpose)
    if missing:
        _install(console, missing, f"{task} needs them {' and '.join(purposes)}")


def find(tool: str) -> str | None:
    """Return the path of a system tool, administrator's folders included, or None."""
    return shutil.which(tool, path=os.pathsep.join([os.environ.get("PATH", os.defpath), *_MORE_PATH]))


def _install(console: Console, missing: Mapping[str, str], why: str) -> None:
    packages = sorted(set(missing.values()))
    refusal = MissingToolsError(
        found=f"Not on this computer: {', '.join(sorted(missing))}.",
        needed=f"The system packages {', '.join(packages)}: {why}.",
        next_step=f"sudo apt-get install {' '.join(packages)}",
    )
    if not find("apt-get"):
        raise refusal
    names = ", ".join(packages)
    question = f"Install the system packages {names} with apt-get? ({why})"
    if console.interactive and not console.confirm(question, default=True):
        raise refusal
    prefix = _privilege(console)
    if prefix is None:
        raise refusal
    console.note(f"Installing the system packages {names} with apt-get ({why}) ...")
    _apt(prefix, packages)
    still = [tool for tool in missing if not find(tool)]
    if still:
        raise InstallFailedError(
            found=f"apt-get installed {', '.join(packages)}, but {', '.join(still)} is still not there.",
            needed=refusal.needed,
            next_step=f"sudo apt-get install --reinstall {' '.join(packages)}",
        )


def _privilege(console: Console) -> list[str] | None:
    """Return what to put before a command to run it as root; None when there is no way."""
    if os.geteuid() == 0:
        return []
    if not find("sudo"):
        return None
    # Without a person at the terminal sudo must not ask for a password.
    prefix = ["sudo"] if console.interactive else ["sudo", "-n"]
    try:
        subprocess.run(
            [*prefix, "true"], check=True, capture_output=not console.interactive, timeout=_SUDO_TIMEOUT_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return prefix


def _apt(prefix: list[str], packages: list[str]) -> None:
    # A fresh machine has no package lists, others have them and need no update: that is known after the first try.
    install = ["install", "--no-install-recommends", *packages]
    if _apt_get(prefix, install).returncode == 0:
        return
    _apt_get(prefix, ["update"])
    done = _apt_get(prefix, install)
    if done.returncode != 0:
        raise InstallFailedError(
            found=f"apt-get install {' '.join(packages)} failed: {' '.join(done.stdout.split())[-600:]}",
            needed="Package sources that work and a package system in order.",
            next_step=f"sudo apt-get install {' '.join(packages)}",
        )


def _apt_get(prefix: list[str], arguments: list[str]) -> subprocess.CompletedProcess[str]:
    # timeout(1), because a process that sudo started cannot be ended from here.
    argv = [
        *prefix,
        *("env", "DEBIAN_FRONTEND=noninteractive", "timeout", str(INSTALL_TIMEOUT_SECONDS)),
        *("apt-get", "-q", "-y", "-o", f"DPkg::Lock::Timeout={LOCK_WAIT_SECONDS}", "-o", "Acquire::Retries=3"),
        *arguments,
    ]
    return subprocess.run(
        argv,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=INSTALL_TIMEOUT_SECONDS + 60,
    )
