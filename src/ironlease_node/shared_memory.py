"""Read the size of /dev/shm, and sizes as mount(8) takes them. Shared with Ansible's ``shared_memory`` module.

Standard library only, and no import from this package: the module carries this one file to the host.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNT_POINT = Path("/dev/shm")  # noqa: S108 - the mount point itself
# The kernel rounds a size up to whole pages, of 64 KiB at most.
ROUNDING_BYTES = 1 << 16
_SIZE = re.compile(r"([1-9][0-9]*)([kmg%]?)", re.IGNORECASE)
_UNITS_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def wanted_bytes(size: str) -> int:
    """Return a size of mount(8) in bytes: ``64G``, ``1048576``, or ``80%`` of the machine's memory.

    Raises ValueError for anything else.
    """
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"not a size as mount(8) takes it: {size!r}")
    number, unit = int(match.group(1)), match.group(2).lower()
    if unit == "%":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * number // 100
    return number * _UNITS_BYTES[unit]


def live_bytes(mount_point: Path = MOUNT_POINT) -> int:
    """Return the size of the file system that is mounted there.

    Raises OSError when there is none, or it does not say.
    """
    if not mount_point.is_mount():
        raise OSError(f"{mount_point} is no mount point")
    found = os.statvfs(str(mount_point))
    return found.f_blocks * found.f_frsize


def is_size(live: int, wanted: int) -> bool:
    """Return whether a live size is the wanted one, the kernel's rounding aside."""
    return abs(live - wanted) < ROUNDING_BYTES
