"""What rollback and a reader want to know of the seller's state, beside the files of /etc themselves."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

from ironlease_node import apt_sources, dpkg
from ironlease_node.host import Host, Problems, Unreadable
from ironlease_node.probe import system
from ironlease_node.text import without_credentials
from ironlease_node.tools import OK, Runner

UNITS_COMMAND = [
    "systemctl",
    "list-unit-files",
    "--state=enabled,enabled-runtime,masked,masked-runtime",
    "--no-legend",
    "--no-pager",
    "--plain",
]
SYSCTL_FOLDERS = ("fs", "kernel", "net/core", "net/ipv4", "vm")
# Keys, and what changes by itself from one moment to the next.
_SYSCTL_LEFT_OUT = re.compile(r"key|secret|/random/|/ns_last_pid$|/inode-|/file-nr$|/dentry-state$|/neigh/|/conf/")

LISTED_FOLDERS = ("/opt", "/usr/local")
LISTING_DEPTH = 3
LISTING_ENTRIES = 5000


def collect(host: Host, runner: Runner) -> dict[str, Any]:
    """Return the document; what cannot be read is None, with an entry in `problems`."""
    problems = Problems()
    parts: dict[str, Callable[[], Any]] = {
        "apt_sources": lambda: _apt_sources(host),
        "authorized_keys": lambda: _authorized_keys(host, problems),
        "automatic_packages": lambda: dpkg.automatic_packages(host),
        "boot_id": lambda: host.text("/proc/sys/kernel/random/boot_id").strip(),
        "broken_packages": lambda: dpkg.read(host).broken(),
        "folders": lambda: {folder: _listing(host, folder) for folder in LISTED_FOLDERS},
        "holds": lambda: dpkg.read(host).holds(),
        "hostname": lambda: system.read_name(host),
        "kernel_command_line": lambda: host.text("/proc/cmdline").strip(),
        "kernel_modules": lambda: _modules(host),
        "kernel_release": lambda: host.text("/proc/sys/kernel/osrelease").strip(),
        "os": lambda: system.parse_os_release(host.text("/etc/os-release")),
        "packages": lambda: dpkg.read(host).installed(),
        "sysctl": lambda: dict(_sysctl(host)),
        "unit_files": lambda: _unit_files(runner),
    }
    document: dict[str, Any] = {}
    for name, read in parts.items():
        try:
            document[name] = read()
        except Unreadable as error:
            document[name] = None
            problems.add(name, error)
    document["problems"] = problems.entries
    return document


def _apt_sources(host: Host) -> list[dict[str, Any]]:
    files = []
    for path in apt_sources.source_files(host):
        text = host.text(path)
        clean = without_credentials(text)
        files.append({"path": path, "content": clean, "credentials_removed": clean != text})
    return files


def _authorized_keys(host: Host, problems: Problems) -> list[dict[str, Any]]:
    """Return who could log in with which keys, as fingerprints: enough to compare, nothing to use."""
    found = []
    for line in host.text("/etc/passwd").splitlines():
        fields = line.split(":")
        if len(fields) < 7 or not fields[5].startswith("/") or fields[5] in {"/", "/nonexistent"}:
            continue
        path = f"{fields[5]}/.ssh/authorized_keys"
        try:
            if host.path(path).is_file():
                found.append({"user": fields[0], "path": path, "fingerprints": parse_fingerprints(host.text(path))})
        except (OSError, Unreadable) as error:
            problems.add(f"authorized_keys.{fields[0]}", error)
    return found


def parse_fingerprints(text: str) -> list[str]:
    """Return `<type> SHA256:<digest>` of each key, as `ssh-keygen -l` prints it."""
    fingerprints = []
    for line in text.splitlines():
        match = re.search(r"(?:^|\s)((?:ssh|ecdsa|sk-)[\w@.-]+)\s+([A-Za-z0-9+/=]{40,})", line)
        if match is None or line.lstrip().startswith("#"):
            continue
        try:
            blob = base64.b64decode(match.group(2), validate=True)
        except binascii.Error:
            continue
        digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
        fingerprints.append(f"{match.group(1)} SHA256:{digest}")
    return fingerprints


def _listing(host: Host, folder: str) -> dict[str, Any]:
    """List a folder by name, type and size, down to a depth: enough to see later what we added."""
    entries: list[dict[str, Any]] = []
    for path, kind, size_bytes in _walk(host.path(folder), folder, LISTING_DEPTH):
        if len(entries) == LISTING_ENTRIES:
            return {"entries": entries, "truncated": True}
        entries.append({"path": path, "type": kind, "size_bytes": size_bytes})
    return {"entries": entries, "truncated": False}


def _walk(place: Any, name: str, depth: int) -> Iterator[tuple[str, str, int]]:
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unreadable(f"{name}: {error.strerror}") from error
    for entry in entries:
        kind = "link" if entry.is_symlink() else "directory" if entry.is_dir() else "file"
        yield f"{name}/{entry.name}", kind, entry.stat(follow_symlinks=False).st_size
        if kind == "directory" and depth > 1:
            yield from _walk(entry.path, f"{name}/{entry.name}", depth - 1)


def _modules(host: Host) -> list[str]:
    return sorted(line.split()[0] for line in host.text("/proc/modules").splitlines() if line.strip())


def _sysctl(host: Host) -> Iterator[tuple[str, str]]:
    top = host.path("/proc/sys")
    for folder in SYSCTL_FOLDERS:
        for place, _, names in os.walk(top / folder):
            for name in names:
                path = f"{place}/{name}"[len(str(top)) :]
                # Some can only be written, or only by others: what is not told was nobody's setting.
                value = None if _SYSCTL_LEFT_OUT.search(path) else host.line(f"/proc/sys{path}")
                if value is not None:
                    yield path.strip("/").replace("/", "."), " ".join(value.split())


def _unit_files(runner: Runner) -> dict[str, str]:
    outcome = runner.run(UNITS_COMMAND)
    if outcome.status != OK:
        raise Unreadable(outcome.reason)
    return dict(words[:2] for words in map(str.split, outcome.stdout.splitlines()) if len(words) >= 2)
