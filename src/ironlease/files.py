"""Files that are whole or not there, and private where they must be."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LOCK_SECONDS = 60.0
_LOCK_POLL_SECONDS = 0.02


def private_folder(path: Path) -> Path:
    """Make ``path`` (and its parents) and close it to other users."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_atomically(path: Path, content: str | bytes, mode: int = 0o600) -> None:
    """Replace ``path`` with ``content`` in one step: a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def changing(path: Path) -> Iterator[None]:
    """Be the only one, of all threads and programs, that reads and replaces ``path``, while the context is open.

    Raises TimeoutError when somebody else does not come to an end with it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + LOCK_SECONDS
    # A file of its own: the one that is guarded is replaced, and a lock would stay with the old one.
    with path.with_name(f".{path.name}.lock").open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{path} is being changed by another program") from None
                time.sleep(_LOCK_POLL_SECONDS)
            else:
                break
        yield


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as readable JSON with sorted keys."""
    write_atomically(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def read_document(path: Path, schema: str) -> dict[str, Any] | None:
    """Return the document of this schema in ``path``; None when there is none, or what is there is no such document."""
    try:
        document = read_json(path)
    except (FileNotFoundError, ValueError):
        return None
    return document if isinstance(document, dict) and document.get("schema") == schema else None


def read_json(path: Path) -> Any:
    """Return the JSON value in ``path``.

    Raises FileNotFoundError when it is not there and ValueError when it is not JSON.
    """
    return json.loads(path.read_text(encoding="utf-8"))
