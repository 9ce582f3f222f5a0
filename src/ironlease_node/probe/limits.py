"""Resource limits of this session, as a training started from it would have them."""

from __future__ import annotations

import resource
from typing import Any

from ironlease_node.probe.sources import Sources


def read_limits(sources: Sources) -> dict[str, Any]:
    """Return the limits on locked memory (RDMA registers that much) and on open files."""
    return {
        "memlock_bytes": _limit(resource.RLIMIT_MEMLOCK),
        "open_files": _limit(resource.RLIMIT_NOFILE),
    }


def _limit(number: int) -> dict[str, Any]:
    soft, hard = resource.getrlimit(number)
    return {"soft": _value(soft), "hard": _value(hard)}


def _value(limit: int) -> int | str:
    return "unlimited" if limit == resource.RLIM_INFINITY else limit
