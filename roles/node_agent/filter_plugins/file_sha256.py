# SPDX-License-Identifier: Apache-2.0
"""The filter ``file_sha256``. Ansible's own lookups read text, and an archive is none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path


def file_sha256(path: str) -> str:
    """Return the SHA-256 of a file on the control side, ``no such file`` when it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "no such file"


class FilterModule:
    """What Ansible loads."""

    def filters(self) -> dict[str, Callable[[str], str]]:
        """Return the filter by its name."""
        return {"file_sha256": file_sha256}
