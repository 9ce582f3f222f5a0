"""One worker at a time, with a limit to the waiting, and no lock that outlives its holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ironlease.lab.errors import LabError

_POLL_SECONDS = 0.05


@contextlib.contextmanager
def exclusive(path: Path, limit_seconds: float, progress: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock file ``path`` while the block runs.

    The kernel releases it when the holder ends, however it ends. Raises LabError after ``limit_seconds``.
    """
    descriptor = _acquire(path, limit_seconds, progress)
    try:
        yield
    finally:
        # Removed while still held: whoever waits for this file notices that it is another one now.
        path.unlink(missing_ok=True)
        os.close(descriptor)
        with contextlib.suppress(OSError):  # other locks are in there
            path.parent.rmdir()


def _acquire(path: Path, limit_seconds: float, progress: Callable[[str], None]) -> int:
    deadline = time.monotonic() + limit_seconds
    announced = False
    while (descriptor := _try(path)) is None:
        holder = _holder(path)
        if not announced:
            progress(f"waiting for {holder}, which is working on the lab")
            announced = True
        if time.monotonic() > deadline:
            raise _busy(holder, limit_seconds)
        time.sleep(_POLL_SECONDS)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()}".encode(), 0)
    return descriptor


def _try(path: Path) -> int | None:
    """Return the locked file's descriptor, or None when somebody else has it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (FileExistsError, FileNotFoundError):
        return None  # the folder is being removed by a holder that has just finished
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(path.stat(), os.fstat(descriptor)):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def _holder(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace").strip() or "another process"
    return "another process"


def _busy(holder: str, limit_seconds: float) -> LabError:
    return LabError(
        code="lab-busy",
        found=f"Another command ({holder}) has been working on this lab for more than {limit_seconds:g} s.",
        needed="One command at a time for one lab.",
        next_step="Let it end, then run the same command again.",
    )
