"""`hold`: the host's provisioning lock, held for as long as somebody at the other end of stdin wants it.

The lock is the kernel's (`flock`), so it ends with its holder however that ends. The text in the file only says who
holds it: a file without a lock is no lock.

A network that goes away closes no connection on the host, where TCP would wait for hours. Whoever wants the lock
therefore sends a byte every few seconds; a holder that hears nothing for `silence_seconds` gives the lock back.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ironlease_node.refusal import Refusal, required_seconds, required_text
from ironlease_node.text import utc_now

ROOT_FOLDER = Path("/run/ironlease")
LOCK_NAME = "provision.lock"
# How soon the death of the session is noticed when stdin stays open (inherited by a process that lives on).
PARENT_CHECK_SECONDS = 2.0
# A holder that was heard within this time is alive; after more, its end is worth waiting for.
ALIVE_SECONDS = 15.0
POLL_SECONDS = 0.2


def answer(request: dict[str, Any]) -> None:
    """Take the lock, print one line, and keep the lock until stdin closes, falls silent, or the session dies.

    ``token`` names the command that asks, over all its connections: its own earlier holder makes way at once.
    Raises Refusal.
    """
    # Asked before anybody is told: once the answer is out the session may end at any moment.
    parent = os.getppid()
    silence_seconds = required_seconds(request, "silence_seconds", "hold")
    holder: dict[str, Any] = {
        "who": required_text(request, "who", "hold"),
        "command": required_text(request, "command", "hold"),
        "token": required_text(request, "token", "hold"),
        "since": utc_now(),
        "pid": os.getpid(),
        "silence_seconds": silence_seconds,
        "heard": time.monotonic(),
    }
    with _open(lock_path()) as lock:
        by = take(lock.fileno(), holder)
        _say({"held": True} if by is None else {"held": False, "by": by})
        if by is not None:
            return

        def heard() -> None:
            _write(lock.fileno(), holder | {"heard": time.monotonic()})

        wait_for_end(sys.stdin.fileno(), parent, silence_seconds, heard)
        os.ftruncate(lock.fileno(), 0)


def lock_path(folder: Path = ROOT_FOLDER) -> Path:
    """Return the lock file of this user: one for root, and one for each user without root rights."""
    return folder / LOCK_NAME if os.geteuid() == 0 else Path.home() / ".cache" / "ironlease" / LOCK_NAME


def take(descriptor: int, holder: dict[str, Any]) -> dict[str, Any] | None:
    """Lock the open file for ``holder``; return None, or who holds it already (empty when unreadable).

    Waits for the end of a holder that has not been heard for a while, and ends an earlier one of the same command.
    """
    while (by := try_lock(descriptor, holder)) is not None:
        if by.get("token") == holder["token"]:
            _end(descriptor, by.get("pid"))
        elif not _is_about_to_give_up(by):
            return by
        time.sleep(POLL_SECONDS)
    return None


def try_lock(descriptor: int, holder: dict[str, Any]) -> dict[str, Any] | None:
    """Lock the open file and write ``holder`` into it; return None, or who holds it already (empty when unreadable)."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder_in(descriptor)
    _write(descriptor, holder)
    return None


def wait_for_end(stdin: int, parent: int, silence_seconds: float, heard: Callable[[], None]) -> None:
    """Return when ``stdin`` is closed at its other end or silent for too long, or ``parent`` is not ours any more.

    ``heard`` is called for every sign of life.
    """
    last_heard = time.monotonic()
    while os.getppid() == parent and time.monotonic() - last_heard < silence_seconds:
        readable, _, _ = select.select([stdin], [], [], PARENT_CHECK_SECONDS)
        if readable:
            if not os.read(stdin, 4096):
                return
            last_heard = time.monotonic()
            heard()


def _is_about_to_give_up(by: dict[str, Any]) -> bool:
    heard, limit = by.get("heard"), by.get("silence_seconds")
    if not isinstance(heard, float) or not isinstance(limit, float):
        # Nobody can tell: then it counts as alive, and nobody's work is disturbed.
        return False
    silence = time.monotonic() - heard
    # Beyond its own limit it is stuck, and waiting for it would have no end.
    return ALIVE_SECONDS <= silence < limit + ALIVE_SECONDS


def _end(descriptor: int, pid: Any) -> None:
    """End the process ``pid`` if it has our lock file open: its number may have gone to somebody else meanwhile."""
    lock = os.fstat(descriptor)
    with contextlib.suppress(OSError, TypeError):
        for entry in Path(f"/proc/{int(pid)}/fd").iterdir():
            if os.path.samestat(entry.stat(), lock):
                os.kill(int(pid), signal.SIGTERM)
                return


def _write(descriptor: int, holder: dict[str, Any]) -> None:
    text = json.dumps(holder, sort_keys=True).encode()
    os.pwrite(descriptor, text, 0)
    os.ftruncate(descriptor, len(text))


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
