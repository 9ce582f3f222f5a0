"""Files that are whole or not there, and private where they must be."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


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


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as readable JSON with sorted keys."""
    write_atomically(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def read_json(path: Path) -> Any:
    """Return the JSON value in ``path``.

    Raises FileNotFoundError when it is not there and ValueError when it is not JSON.
    """
    return json.loads(path.read_text(encoding="utf-8"))
