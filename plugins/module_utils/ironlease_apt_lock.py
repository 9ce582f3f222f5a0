"""Wait for the locks of apt and dpkg, and say who holds them.

apt-get's own option DPkg::Lock::Timeout waits for dpkg's locks alone: `apt-get update` fails at once when another one,
most often apt-daily.service in the minutes after a boot, holds the lock of the lists.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path

from ansible.module_utils.ironlease_support import RefusalError, process_name

LOCKS = (
    Path("/var/lib/dpkg/lock-frontend"),
    Path("/var/lib/dpkg/lock"),
    Path("/var/lib/apt/lists/lock"),
    Path("/var/cache/apt/archives/lock"),
)
POLL_SECONDS = 1.0
# struct flock of fcntl(2): type, whence, start, length, pid, in native sizes and alignment.
_FLOCK = "hhlli"


def wait_for_locks(deadline_seconds: float, locks: tuple[Path, ...] = LOCKS) -> None:
    """Wait until none of the locks is held, at most until ``deadline_seconds`` of the monotonic clock.

    Raises RefusalError, which names the holder.
    """
    while True:
        held = next(((path, pid) for path in locks if (pid := holder(path)) is not None), None)
        if held is None:
            return
        if time.monotonic() >= deadline_seconds:
            path, pid = held
            raise RefusalError(
                found=f"Could not get lock {path}: held by {process_name(pid) if pid > 0 else 'a process elsewhere'}.",
                needed="A package manager that nobody else is using.",
                next_step="Wait until that installation has ended (or raise ironlease_apt_lock_wait_seconds in the "
                "inventory), then run the same command again.",
            )
        time.sleep(POLL_SECONDS)


def holder(path: Path) -> int | None:
    """Return the process that holds the lock, None when nobody does. 0 stands for one in another PID namespace."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        # No such file: nobody has ever taken it.
        return None
    try:
        wish = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        lock_type, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, wish))
    finally:
        os.close(descriptor)
    return None if lock_type == fcntl.F_UNLCK else max(pid, 0)
