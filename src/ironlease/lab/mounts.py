"""What is mounted, as the kernel tells it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_OCTAL = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class Mount:
    """One line of /proc/self/mountinfo."""

    point: Path
    kind: str
    writable: bool


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts that ``text`` (the format of proc(5), /proc/PID/mountinfo) lists."""
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, tail = before.split(), after.split()
        mounts.append(Mount(Path(_unescape(fields[4])), tail[0], "rw" in fields[5].split(",")))
    return mounts


def current_mounts() -> list[Mount]:
    """Return what is mounted in the calling process's mount namespace."""
    return parse_mountinfo(Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))


def mounted_at_or_below(folder: Path) -> list[Path]:
    """Return the mount points at or below ``folder``, the last mounted first."""
    return [mount.point for mount in reversed(current_mounts()) if mount.point.is_relative_to(folder)]


def is_mount_point(path: Path) -> bool:
    """Return whether something is mounted exactly at ``path`` (a file, such as a bound namespace, included)."""
    return any(mount.point == path for mount in current_mounts())


def _unescape(field: str) -> str:
    return _OCTAL.sub(lambda match: chr(int(match.group(1), 8)), field)
