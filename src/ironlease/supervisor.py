"""Runs one command, and ends it together with everything that it started when its owner lets go of it or dies.

Run as ``python3 -IS supervisor.py LEASH COMMAND...``. LEASH is a named pipe that the owner keeps open for writing. A
byte in it asks for the end; and it closes with the owner, however that ends, kill -9 included: then the pipe's folder
is removed, too, because nobody else is left who could. Ansible's workers and ssh's masters leave their process group,
so that no signal to a group reaches them; they are found because orphans are adopted here (Linux).

Imports the standard library alone, and is never imported by anything.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path

# Between the request to end and the end: Ansible removes its temporary files, ssh its socket.
GRACE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_CANNOT_START = 127
_OWNER_IS_GONE = b""


def main(arguments: list[str]) -> int:
    """Run the command and return its exit status; 128 and more for a signal, as in a shell."""
    leash, command = Path(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    wake_up = _wake_up_at_a_childs_end()
    try:
        descriptor = os.open(leash, os.O_RDONLY | os.O_NONBLOCK)
        child = os.posix_spawnp(command[0], command, os.environ)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error}\n")
        return _CANNOT_START
    status = _wait(child, descriptor, wake_up)
    _end_all()
    if status is None and _word_of(descriptor) == _OWNER_IS_GONE:
        shutil.rmtree(leash.parent, ignore_errors=True)
    return 128 + signal.SIGTERM if status is None else status


def _wake_up_at_a_childs_end() -> int:
    """Return a descriptor that becomes readable whenever a child has ended."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return reading


def _wait(child: int, leash: int, wake_up: int) -> int | None:
    """Return the child's exit status, or None when it must be ended."""
    # A pipe whose writer is gone already would never wake us, so it is read before the first sleep, too.
    while _word_of(leash) is None:
        for pid, status in _reaped():
            if pid == child:
                return status
        # No time limit here: the owner has one, and says so.
        select.select([leash, wake_up], [], [])
        with contextlib.suppress(BlockingIOError):
            os.read(wake_up, 4096)
    return None


def _word_of(leash: int) -> bytes | None:
    """Return what the owner has written, nothing when it is gone, and None when it only holds the leash."""
    try:
        return os.read(leash, 1)
    except BlockingIOError:
        return None


def _reaped() -> list[tuple[int, int]]:
    """Return the children that have ended, with their exit status."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(found[1])
            ended.append((found[0], code if code >= 0 else 128 - code))
    return ended


def _end_all() -> None:
    """End everything that descends from this process: in order, then by force."""
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, GRACE_SECONDS)):
        deadline = time.monotonic() + seconds
        told: set[int] = set()
        while (left := _descendants()) and time.monotonic() < deadline:
            for pid in left - told:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            told |= left
            time.sleep(0.02)
            _reaped()


def _descendants() -> set[int]:
    """Return the processes below this one; without /proc (not Linux) only those of its own process group end."""
    if not Path("/proc/self/stat").exists():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
        return set()
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                parents[int(entry.name)] = int(words[1])
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
