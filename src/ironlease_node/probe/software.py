"""Installed packages, APT's set-up, Python interpreters."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ironlease_node import apt_sources, dpkg
from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.processes import lock_holders
from ironlease_node.probe.sources import Sources
from ironlease_node.text import sha256_of
from ironlease_node.tools import OK, Command

KEYRING_FOLDERS = ("/etc/apt/keyrings", "/etc/apt/trusted.gpg.d", "/usr/share/keyrings")
KEYRING_FILE = "/etc/apt/trusted.gpg"

LOCK_FILES = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
)

_PERIODIC = "APT::Periodic::Unattended-Upgrade"
COMMANDS = {"periodic": Command(["apt-config", "dump", "--format", "%f=%v%n", _PERIODIC])}

SYSTEM_PYTHON = "/usr/bin/python3"
PYTHON_FOLDERS = ("/usr/bin", "/usr/local/bin", "/opt/conda/bin", "/opt/python/bin")
# Debian's python3 has `venv` but not always `ensurepip`, without which no environment gets its pip.
PYTHON_QUESTION = (
    "import sys, importlib.util as u;"
    "print('%d.%d.%d' % sys.version_info[:3], all(u.find_spec(n) for n in ('venv', 'ensurepip')))"
)


def read_packages(sources: Sources) -> dict[str, str]:
    """Return the versions of installed packages."""
    return sources.database().installed()


def read_broken_packages(sources: Sources) -> list[dict[str, str]]:
    """Return what dpkg left in the middle."""
    return sources.database().broken()


def read_holds(sources: Sources) -> list[str]:
    """Return the packages on hold."""
    return sources.database().holds()


def read_apt(sources: Sources) -> dict[str, Any]:
    """Return APT's sources, keyrings, and who has its locks."""
    host = sources.host
    parts: dict[str, Callable[[], Any]] = {
        "sources": lambda: apt_sources.read(host),
        "keyrings": lambda: _keyrings(host),
        "locks": lambda: lock_holders(host, LOCK_FILES),
        "dpkg_interrupted": lambda: dpkg.was_interrupted(host),
    }
    answer: dict[str, Any] = {}
    for name, read in parts.items():
        try:
            answer[name] = read()
        except Unreadable as error:
            answer[name] = None
            sources.problems.add(f"apt.{name}", error)
    return answer


def _keyrings(host: Host) -> list[dict[str, Any]]:
    paths = [f"{folder}/{name}" for folder in KEYRING_FOLDERS for name in host.names(folder)]
    keyrings = []
    for path in (KEYRING_FILE, *paths):
        if path.endswith((".gpg", ".asc")) and host.path(path).is_file():
            try:
                data = host.path(path).read_bytes()
            except OSError as error:
                raise Unreadable(f"{path}: {error.strerror}") from error
            keyrings.append({"path": path, "sha256": sha256_of(data), "size_bytes": len(data)})
    return keyrings


def read_unattended_upgrades(sources: Sources) -> dict[str, Any]:
    """Return whether packages may change under us."""
    enabled = None
    try:
        enabled = parse_periodic(sources.answer_of("periodic"))
    except Unreadable as error:
        sources.problems.add("unattended_upgrades.enabled", error)
    return {"installed": "unattended-upgrades" in sources.database().installed(), "enabled": enabled}


def parse_periodic(text: str) -> bool:
    """Return whether APT's periodic upgrade is on: a number of days, or `always`; unset and 0 mean off."""
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return values.get(_PERIODIC, "0").strip('"') not in {"", "0"}


def python_commands(host: Host) -> dict[str, Command]:
    """Return a question to each interpreter, one for each file behind the many names."""
    commands: dict[str, Command] = {}
    seen = set()
    paths = [f"{folder}/{name}" for folder in PYTHON_FOLDERS for name in host.names(folder)]
    for path in sorted(paths, key=lambda path: (path != SYSTEM_PYTHON, path)):
        real = host.path(path).resolve()
        if re.search(r"/python3(\.\d+)?$", path) and real.is_file() and real not in seen:
            seen.add(real)
            commands[f"python:{path}"] = Command([str(host.path(path)), "-I", "-S", "-c", PYTHON_QUESTION])
    return commands


def read_pythons(sources: Sources) -> list[dict[str, Any]]:
    """Return the interpreters that answered; the others are in `problems`."""
    pythons = []
    for name, outcome in sources.outcomes.items():
        if not name.startswith("python:"):
            continue
        path = name.partition(":")[2]
        words = outcome.stdout.split()
        if outcome.status == OK and len(words) == 2:
            pythons.append({"path": path, "version": words[0], "venv": words[1] == "True"})
        else:
            sources.problems.add(f"pythons.{path}", outcome.reason)
    return pythons


def read_reboot_required(sources: Sources) -> dict[str, Any]:
    """Return whether an earlier installation asked for a reboot, and for the sake of which packages."""
    names = sources.host.optional_text("/run/reboot-required.pkgs") or ""
    required = sources.host.path("/run/reboot-required").is_file()
    return {"required": required, "packages": sorted(set(names.split()))}
