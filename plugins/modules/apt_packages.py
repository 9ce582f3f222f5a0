#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Install Debian packages that are missing."""

from __future__ import annotations

import time
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ironlease_apt_lock import wait_for_locks
from ansible.module_utils.ironlease_node import dpkg
from ansible.module_utils.ironlease_node.host import Host, Unreadable
from ansible.module_utils.ironlease_support import Ended, RefusalError, fail, run

DOCUMENTATION = r"""
module: apt_packages
short_description: Install Debian packages that are missing
description:
  - Installs what is missing and leaves what is there as it is. With nothing missing it reads dpkg's status file and
    ends, without the network and without a lock.
  - Unlike M(ansible.builtin.apt) it needs no python3-apt, so that check mode works on a bare host. It refreshes the
    package lists only when something is missing, takes a source that cannot be fetched or has a wrong signature for a
    failure, in apt's own words, waits for every lock of apt and dpkg and says who holds it, and removes no package.
options:
  packages:
    description: Names of packages, as dpkg knows them. Virtual packages are not supported.
    type: list
    elements: str
    required: true
  lock_wait_seconds:
    description: How long to wait for somebody else's installation to end.
    type: int
    default: 300
  repair_dpkg:
    description:
      - Whether to run C(dpkg --configure -a) when dpkg left packages unpacked or half-configured.
      - Packages that are half-installed or need a reinstallation are never repaired; the failure says how to.
    type: bool
    default: false
  timeout_seconds:
    description: How long each run of apt-get or dpkg may take.
    type: int
    default: 1800
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: ironlease
"""

EXAMPLES = r"""
- name: Install what a virtual environment needs
  apt_packages:
    packages: [python3-venv]
"""

RETURN = r"""
packages:
  description: The installed version of each wanted package; null for one that check mode would install.
  returned: success
  type: dict
changes:
  description: One line for each thing that was changed, or would be in check mode.
  returned: success
  type: list
  elements: str
"""

HOST = Host()
APT_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    # Our messages are matched by people and programs in one language.
    "LC_ALL": "C.UTF-8",
    # Ubuntu's needrestart would restart services behind our back, a running training's among them.
    "NEEDRESTART_SUSPEND": "1",
}
APT_GET = [
    "apt-get",
    "--quiet",
    "--yes",
    "--option=Acquire::Retries=2",
    "--option=Acquire::http::Timeout=30",
    "--option=Acquire::https::Timeout=30",
]
INSTALL_OPTIONS = [
    "--no-install-recommends",
    # A conflict stops the installation: whatever would be removed is the seller's or the user's.
    "--no-remove",
    # A file of the seller's stays as it is when the package brings another.
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
]
# dpkg can finish these by itself from what lies on the disk.
REPAIRABLE_STATES = {"half-configured", "unpacked", "triggers-awaited", "triggers-pending"}


def missing_of(packages: list[str], database: dpkg.Database) -> list[str]:
    """Return the wanted packages that are not installed, whole."""
    return [name for name in packages if _installed_version(name, database) is None]


def _installed_version(name: str, database: dpkg.Database) -> str | None:
    package = database.find(name)
    return package.version if package is not None and package.state == "installed" else None


def source_problems(output: str) -> list[str]:
    """Return apt's own words about sources that could not be used.

    apt-get update ends with 0 when it falls back to old lists, so that its exit status alone says too little.
    """
    return [line for line in output.splitlines() if line.startswith(("W:", "E:")) and _is_about_a_source(line)]


def _is_about_a_source(line: str) -> bool:
    # Warnings about how sources are written (a legacy keyring, one listed twice, only one of the two places used) harm
    # nothing.
    harmless = (
        "legacy trusted.gpg",
        "configured multiple times",
        "doesn't support architecture",
        "weak algorithm",
        "DirectoryExists (2: ",
        "RealFileExists (2: ",
    )
    return not any(words in line for words in harmless)


def require_whole(database: dpkg.Database, interrupted: bool, repair: bool) -> bool:
    """Return whether dpkg has to finish something first.

    Raises RefusalError when it may not, or cannot by itself.
    """
    broken = database.broken()
    if not broken and not interrupted:
        return False
    named = ", ".join(f"{entry['name']} ({entry['state']})" for entry in broken) or "its journal is not empty"
    found = f"dpkg was interrupted: {named}."
    needed = "A package manager whose packages are all installed whole."
    beyond = [entry["name"] for entry in broken if entry["state"] not in REPAIRABLE_STATES]
    if beyond:
        reinstall = f"apt-get install --reinstall {' '.join(beyond)} (on the host), then run again."
        raise RefusalError(found=found, needed=needed, next_step=reinstall)
    if not repair:
        raise RefusalError(found=found, needed=needed, next_step="dpkg --configure -a (on the host), then run again.")
    return True


class Installer:
    """Brings the missing packages onto the host. Every method raises RefusalError when it cannot go on."""

    def __init__(self, lock_wait_seconds: int, timeout_seconds: int) -> None:
        self._lock_deadline_seconds = time.monotonic() + lock_wait_seconds
        self._timeout_seconds = timeout_seconds

    def wait_for_locks(self) -> None:
        """Wait until nobody holds a lock of apt or dpkg."""
        wait_for_locks(self._lock_deadline_seconds)

    def repair(self) -> None:
        """Let dpkg finish what it was interrupted in."""
        ended = self._run(["dpkg", "--force-confdef", "--force-confold", "--configure", "-a"])
        if ended.status != 0:
            raise RefusalError(
                found=f"dpkg --configure -a failed: {ended.words()}",
                needed="A package manager whose packages are all installed whole.",
                next_step="Mend the package that dpkg names (on the host), then run again.",
            )

    def refresh(self) -> None:
        """Fetch the package lists of every source."""
        ended = self._run([*APT_GET, "update"])
        problems = source_problems(ended.output)
        if ended.status != 0 or problems:
            raise RefusalError(
                found="apt-get update failed: " + ("\n".join(problems) or ended.words()),
                needed="Package sources that can be fetched and are signed by the keys that the host has for them.",
                next_step="Mend or disable what apt names in /etc/apt/sources.list and /etc/apt/sources.list.d "
                "(on the host), then run again.",
            )

    def install(self, packages: list[str]) -> None:
        """Install the packages and what they depend on."""
        ended = self._run([*APT_GET, *INSTALL_OPTIONS, "install", *packages])
        if ended.status != 0:
            raise RefusalError(
                found=f"apt-get install {' '.join(packages)} failed: {ended.words(('E:', 'W:'))}",
                needed=f"To install {', '.join(packages)} without removing a package.",
                next_step="Mend what apt names (on the host), then run again: what is installed already stays.",
            )

    def _run(self, argv: list[str]) -> Ended:
        """Run apt-get or dpkg when the locks are free; when somebody was faster, wait for them once more."""
        while True:
            self.wait_for_locks()
            try:
                ended = run(argv, self._timeout_seconds, APT_ENVIRONMENT)
            except OSError as error:
                raise RefusalError(
                    found=f"{argv[0]}: {error.strerror}.",
                    needed="A distribution of the Debian family, with apt and dpkg.",
                    next_step="Choose a host with a supported distribution (docs/reference/support.md).",
                ) from error
            if ended.status is None:
                raise RefusalError(
                    found=f"{' '.join(argv)} did not end within {self._timeout_seconds} s: {ended.words()}",
                    needed="Package sources that answer.",
                    next_step="Look at the sources in /etc/apt and the route of the host, then run again.",
                )
            lost_the_race = ended.status != 0 and "could not get lock" in ended.output.lower()
            if not lost_the_race or time.monotonic() >= self._lock_deadline_seconds:
                return ended


def apply(module: AnsibleModule) -> dict[str, Any]:
    """Do the work and return the module's result.

    Raises RefusalError, and Unreadable when dpkg's files cannot be read.
    """
    wanted: list[str] = module.params["packages"]
    repair: bool = module.params["repair_dpkg"]
    installer = Installer(module.params["lock_wait_seconds"], module.params["timeout_seconds"])
    database = dpkg.read(HOST)
    if not missing_of(wanted, database) and not database.broken() and not dpkg.was_interrupted(HOST):
        return _result(wanted, [], database)
    if not module.check_mode:
        # Half-configured packages may be the work of an installation that still runs: judge when it is over.
        installer.wait_for_locks()
        database = dpkg.read(HOST)
    changes = []
    if require_whole(database, dpkg.was_interrupted(HOST), repair):
        changes.append("dpkg --configure -a")
        if not module.check_mode:
            installer.repair()
            database = dpkg.read(HOST)
    missing = missing_of(wanted, database)
    if missing:
        changes.append(f"install {', '.join(missing)}")
        if not module.check_mode:
            installer.refresh()
            installer.install(missing)
            database = dpkg.read(HOST)
            _require_installed(missing_of(wanted, database))
    return _result(wanted, changes, database)


def _require_installed(missing: list[str]) -> None:
    if missing:
        raise RefusalError(
            found=f"apt-get ended well, but dpkg does not list as installed: {', '.join(missing)}.",
            needed="Names of real packages.",
            next_step="Replace virtual names by the packages that provide them, then run again.",
        )


def _result(wanted: list[str], changes: list[str], database: dpkg.Database) -> dict[str, Any]:
    return {
        "changed": bool(changes),
        "packages": {name: _installed_version(name, database) for name in wanted},
        "changes": changes,
        "diff": {"prepared": "".join(f"{change}\n" for change in changes)},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "packages": {"type": "list", "elements": "str", "required": True},
            "lock_wait_seconds": {"type": "int", "default": 300},
            "repair_dpkg": {"type": "bool", "default": False},
            "timeout_seconds": {"type": "int", "default": 1800},
        },
        supports_check_mode=True,
    )
    try:
        result = apply(module)
    except RefusalError as refusal:
        fail(module, refusal)
    except Unreadable as error:
        fail(
            module,
            RefusalError(
                found=f"{error}.",
                needed="A distribution of the Debian family, with apt and dpkg.",
                next_step="Choose a host with a supported distribution (docs/reference/support.md).",
            ),
        )
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
