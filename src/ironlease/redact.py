"""Keeps secrets out of everything that is written or printed.

A secret that enters the program (a password that was typed, read from a file or found in an inventory) is
registered once; every text on its way to a file, a terminal or a program then passes through :func:`scrub`.
"""

from __future__ import annotations

import json
from typing import Any

_MASK = "********"
# Shorter than this a "secret" would also blank ordinary words, and protects nothing.
_MIN_LENGTH = 4
_secrets: set[str] = set()


def register(secret: str | None) -> None:
    """Remember ``secret``, and the forms that JSON and repr give it, as never to be shown."""
    if not secret or len(secret) < _MIN_LENGTH:
        return
    _secrets.update({secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]})


def scrub(text: str) -> str:
    """Return ``text`` with every registered secret masked."""
    for secret in sorted(_secrets, key=len, reverse=True):
        text = text.replace(secret, _MASK)
    return text


def scrub_value(value: Any) -> Any:
    """Return a JSON-like value with every registered secret masked in its keys and strings."""
    if not _secrets:
        return value
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, dict):
        return {scrub(str(key)): scrub_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [scrub_value(item) for item in value]
    return value
