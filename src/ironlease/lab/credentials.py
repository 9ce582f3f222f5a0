"""Recognises what must not be handed on to a lab host."""

from __future__ import annotations

import re

_CREDENTIALS = re.compile(r"://[^/\s@\"']+@")


def has_credentials(text: str) -> bool:
    """Return whether ``text`` holds a URL with a user name or a password in it."""
    return bool(_CREDENTIALS.search(text))
