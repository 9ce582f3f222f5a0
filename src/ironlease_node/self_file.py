"""What the agent knows about itself."""

from __future__ import annotations

import platform
import sys
import zipimport
from pathlib import Path
from typing import Any

from ironlease_node import __version__
from ironlease_node.text import sha256_of


def describe() -> dict[str, Any]:
    """Return the agent's version, the Python that runs it, and its file's SHA-256 (None when run from sources)."""
    return {"version": __version__, "python": platform.python_version(), "sha256": _own_sha256()}


def _own_sha256() -> str | None:
    loader = getattr(sys.modules["ironlease_node"], "__loader__", None)
    if not isinstance(loader, zipimport.zipimporter):
        return None
    return sha256_of(Path(loader.archive).read_bytes())
