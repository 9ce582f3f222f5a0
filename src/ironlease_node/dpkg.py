"""Reads dpkg's own records: /var/lib/dpkg/status and its neighbours. Nothing is executed and no lock is taken."""

from __future__ import annotations

import re
from typing import NamedTuple

# Relative, because Ansible carries this module to the host inside a package of its own.
from .host import Host

STATUS_FILE = "/var/lib/dpkg/status"
UPDATES_FOLDER = "/var/lib/dpkg/updates"
EXTENDED_STATES_FILE = "/var/lib/apt/extended_states"

# What dpkg(1) calls the states of a package; the first three are whole.
WHOLE_STATES = {"not-installed", "config-files", "installed"}


class Package(NamedTuple):
    """One entry of the status file: `Status: <selection> <flag> <state>`."""

    name: str
    architecture: str
    version: str
    selection: str
    flag: str
    state: str


class Database(NamedTuple):
    """All entries, by `name` for the native architecture and `all`, by `name:arch` for a foreign one."""

    packages: dict[str, Package]
    native_architecture: str | None

    def installed(self) -> dict[str, str]:
        """Return the versions of the installed packages, sorted by name."""
        return {key: package.version for key, package in sorted(self.packages.items()) if package.state == "installed"}

    def broken(self) -> list[dict[str, str]]:
        """Return the packages that dpkg left in the middle of something."""
        return [
            {
                "name": key,
                "state": "reinst-required" if package.flag == "reinstreq" else package.state,
                "version": package.version,
            }
            for key, package in sorted(self.packages.items())
            if package.state not in WHOLE_STATES or package.flag == "reinstreq"
        ]

    def holds(self) -> list[str]:
        """Return the names of the packages on hold."""
        return sorted(key for key, package in self.packages.items() if package.selection == "hold")

    def find(self, name: str) -> Package | None:
        """Return the entry for `name` or `name:arch`; the native architecture's name may be spelled out."""
        bare, _, architecture = name.partition(":")
        if architecture in {self.native_architecture, "native", "all", "any"}:
            return self.packages.get(bare)
        return self.packages.get(name)


_FIELD = re.compile(r"^(Package|Status|Architecture|Version): (.*)$|^()$", re.MULTILINE)


def read(host: Host) -> Database:
    """Read the status file.

    Raises Unreadable.
    """
    return parse_status(host.text(STATUS_FILE))


def parse_status(text: str) -> Database:
    """Parse dpkg's status file: stanzas of `Key: value` with an empty line between them."""
    entries = []
    fields: dict[str, str] = {}
    # One pass over a file of megabytes: an empty line ends a stanza, continuation lines never match.
    for match in _FIELD.finditer(text + "\n\n"):
        key = match.group(1)
        if key:
            fields[key] = match.group(2)
        elif fields:
            entries.append(_entry(fields))
            fields = {}
    native = next((entry.architecture for entry in entries if entry.name == "dpkg"), None)
    return Database({_key(entry, native): entry for entry in entries}, native)


def _entry(fields: dict[str, str]) -> Package:
    words = [*fields.get("Status", "").split(), "", "", ""][:3]
    return Package(
        fields.get("Package", ""),
        fields.get("Architecture", ""),
        fields.get("Version", ""),
        words[0],
        words[1],
        words[2],
    )


def _key(entry: Package, native: str | None) -> str:
    if native is None or entry.architecture in {native, "all", ""}:
        return entry.name
    return f"{entry.name}:{entry.architecture}"


def was_interrupted(host: Host) -> bool:
    """Return whether dpkg was stopped in the middle: its journal has numbered files.

    Raises Unreadable.
    """
    return any(name.isdigit() for name in host.names(UPDATES_FOLDER))


def automatic_packages(host: Host) -> list[str]:
    """Return the packages that apt installed only because others needed them, as `name` (its own spelling).

    Raises Unreadable.
    """
    marked = set()
    for stanza in host.text(EXTENDED_STATES_FILE).split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
        if fields.get("Auto-Installed") == "1" and "Package" in fields:
            marked.add(fields["Package"])
    return sorted(marked)
