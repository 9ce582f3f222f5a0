"""`hold`: the host's provisioning lock, held for as long as somebody at the other end of stdin wants it.

The lock is the kernel's (`flock`), so it ends with its holder however that ends. The text in the file only says who
holds it: a file without a lock is no lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import sys
from pathlib import Path
from typing import Any

from ironlease_node.refusal import Refusal, required_text
from ironlease_node.text import utc_now

ROOT_FOLDER = Path("/run/ironlease")
LOCK_NAME = "provision.lock"
# How soon the death of the session is noticed when stdin stays open (inherited by a process that lives on).
PARENT_CHECK_SECONDS = 2.0


def answer(request: dict[str, Any]) -> None:
    """Take the lock, print one line, and keep the lock until stdin closes or the session dies.

    Raises Refusal.
    """
    # Asked before anybody is told: once the answer is out the session may end at any moment.
    parent = os.getppid()
    holder = {
        "who": required_text(request, "who", "hold"),
        "command": required_text(request, "command", "hold"),
        "since": utc_now(),
        "pid": os.getpid(),
    }
    with _open(lock_path()) as lock:
        by = try_lock(lock.fileno(), holder)
        _say({"held": True} if by is None else {"held": False, "by": by})
        if by is None:
            wait_for_end(sys.stdin.fileno(), parent)
            os.ftruncate(lock.fileno(), 0)


def lock_path(folder: Path = ROOT_FOLDER) -> Path:
    """Return the lock file of this user: one for root, and one for each user without root rights."""
    return folder / LOCK_NAME if os.geteuid() == 0 else Path.home() / ".cache" / "ironlease" / LOCK_NAME


def try_lock(descriptor: int, holder: dict[str, Any]) -> dict[str, Any] | None:
    """Lock the open file and write ``holder`` into it; return None, or who holds it already (empty when unreadable)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder_in(descriptor)
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, json.dumps(holder, sort_keys=True).encode(), 0)
    return None


def wait_for_end(stdin: int, parent: int) -> None:
    """Return when ``stdin`` is closed at its other end, or ``parent`` is no longer our parent."""
    while os.getppid() == parent:
        readable, _, _ = select.select([stdin], [], [], PARENT_CHECK_SECONDS)
        if readable and not os.read(stdin, 4096):
            return


def _open(path: Path) -> Any:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644), "r+b", buffering=0)
    except OSError as error:
        raise Refusal(
            code="lock-unavailable",
            found=f"{path} cannot be opened: {error.strerror}.",
            needed="A folder for the provisioning lock that this user may write.",
            next_step=f"ls -ld {path.parent}",
        ) from error


def _holder_in(descriptor: int) -> dict[str, Any]:
    with contextlib.suppress(OSError, ValueError):
        holder = json.loads(os.pread(descriptor, 65536, 0))
        if isinstance(holder, dict):
            return holder
    return {}


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line, sort_keys=True) + "\n")
    sys.stdout.flush()
