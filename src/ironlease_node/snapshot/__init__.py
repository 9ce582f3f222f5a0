"""`snapshot`: the seller's state, saved once before the first change.

The folder is made beside its place, filled, flushed and renamed, so that it is whole or not there. What is there is
never overwritten: after our first change nobody could make it again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from ironlease_node import self_file
from ironlease_node.host import Host
from ironlease_node.refusal import Refusal, required_text
from ironlease_node.snapshot import archive, document
from ironlease_node.text import sha256_of, utc_now
from ironlease_node.tools import Runner

SCHEMA = "ironlease.seller-state/1"
ARCHIVE_NAME = "etc.tar.gz"
DOCUMENT_NAME = "state.json"
# Far more than /etc and the document ever need; a disk with less is full for every other purpose, too.
NEEDED_BYTES = 64 * 1024 * 1024


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return `ironlease.seller-state/1`; `directory` of the request is where it is kept.

    Raises Refusal.
    """
    directory = required_text(request, "directory", "snapshot")
    if not directory.startswith("/"):
        raise Refusal(
            code="bad-input",
            found=f"`directory` is {directory!r}.",
            needed="An absolute path.",
            next_step='echo \'{"directory": "/var/lib/ironlease/seller-state"}\' | python3 agent.pyz snapshot',
        )
    return save(Host(), Runner(), Path(directory))


def save(host: Host, runner: Runner, directory: Path) -> dict[str, Any]:
    """Return what is kept in ``directory``, saved now or earlier.

    Raises Refusal when there is no room, when it cannot be written, or when what is there is damaged.
    """
    if os.path.lexists(directory) and not _is_empty(directory):
        return {**load(directory), "already_there": True}
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        _require_room(directory)
        _remove_unfinished(directory)
        temporary = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}."))
    except OSError as error:
        raise _not_written(directory, error) from error
    try:
        _fill(host, runner, temporary)
        # A folder may be renamed over an empty one, and over nothing else: a second agent cannot spoil the first's.
        temporary.rename(directory)
        _flush(directory.parent)
    except OSError as error:
        raise _not_written(directory, error) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return {**load(directory), "already_there": False}


def load(directory: Path) -> dict[str, Any]:
    """Return the seller's state that was saved in ``directory``.

    Raises Refusal when it is not whole.
    """
    path = directory / ARCHIVE_NAME
    try:
        kept = json.loads((directory / DOCUMENT_NAME).read_text(encoding="utf-8"))
        digest, content = kept["sha256"], kept["document"]
        changed = sha256_of(path.read_bytes()) != digest
        damage = f"{path} has another SHA-256 than when it was saved" if changed else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        damage = f"it cannot be read: {error!r}"
    if damage is not None:
        raise Refusal(
            code="seller-state-damaged",
            found=f"{directory} holds something that is not a whole seller's state: {damage}.",
            needed="The state from before the first change. It is never overwritten, as it cannot be made again.",
            next_step=f"mv {directory} {directory}.damaged (the state as it is today is saved in its place)",
        )
    return {
        "schema": SCHEMA,
        "path": str(path),
        "sha256": digest,
        "size_bytes": path.stat().st_size,
        "created": kept["created"],
        "document": content,
    }


def _fill(host: Host, runner: Runner, folder: Path) -> None:
    path = folder / ARCHIVE_NAME
    # mkdtemp makes the folder 0700; the files are closed to others on their own as well.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        left_out = archive.write(host, target)
        target.flush()
        os.fsync(target.fileno())
    content = {**document.collect(host, runner), "agent": self_file.describe(), "left_out": left_out}
    kept = {"created": utc_now(), "sha256": sha256_of(path.read_bytes()), "document": content}
    with os.fdopen(os.open(folder / DOCUMENT_NAME, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(json.dumps(kept, indent=1, sort_keys=True).encode())
        target.flush()
        os.fsync(target.fileno())
    _flush(folder)


def _flush(folder: Path) -> None:
    """Make the names in a folder outlast a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_unfinished(directory: Path) -> None:
    """Remove what an agent left that was killed; the provisioning lock keeps a second one away."""
    for leftover in directory.parent.glob(f".{directory.name}.*"):
        shutil.rmtree(leftover, ignore_errors=True)


def _is_empty(directory: Path) -> bool:
    with contextlib.suppress(OSError):
        return next(directory.iterdir(), None) is None
    return False


def _require_room(directory: Path) -> None:
    status = os.statvfs(directory.parent)
    available_bytes = status.f_bavail * status.f_frsize
    if available_bytes < NEEDED_BYTES:
        raise Refusal(
            code="disk-full",
            found=f"{available_bytes} bytes are free at {directory.parent}.",
            needed=f"{NEEDED_BYTES} bytes, to save the seller's state before anything is changed.",
            next_step=f"apt-get clean; df -h {directory.parent}",
        )


def _not_written(directory: Path, error: OSError) -> Refusal:
    return Refusal(
        code="disk-full" if error.errno == errno.ENOSPC else "not-writable",
        found=f"The seller's state cannot be written to {directory}: {error.strerror or error!r}.",
        needed="A place that this user may write, with room for a copy of /etc.",
        next_step=f"df -h {directory.parent}; ls -ld {directory.parent} (and log in as root)",
    )
