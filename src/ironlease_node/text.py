"""Small pure helpers for text that comes from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import datetime, timezone
from typing import Any

# `scheme://name:password@host`; a name alone (git@) is no secret, but goes too: tokens are written that way.
_URL_CREDENTIALS = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s@\"']+@", re.IGNORECASE)


def without_credentials(text: str) -> str:
    """Return ``text`` with names and passwords removed from the URLs in it."""
    return _URL_CREDENTIALS.sub(r"\g<scheme>", text)


def utc_now() -> str:
    """Return the host's clock in UTC, to the second."""
    # datetime.UTC came with Python 3.11.
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def sha256_of(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(value: Any) -> bytes:
    """Return the one spelling of a JSON value that digests are taken over: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def whole_number(text: str | None) -> int | None:
    """Return the integer that ``text`` spells, or None."""
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
