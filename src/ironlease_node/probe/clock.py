"""The host's clock: a lease's end means nothing on a host that is wrong about the time."""

from __future__ import annotations

from typing import Any

from ironlease_node.host import Unreadable
from ironlease_node.probe.sources import Sources
from ironlease_node.text import utc_now
from ironlease_node.tools import Command

COMMANDS = {"clock": Command(["timedatectl", "show"])}


def read_time(sources: Sources) -> dict[str, Any]:
    """Return the time and whether the kernel says that it is kept in step with a server."""
    synchronised, timezone = None, None
    try:
        synchronised, timezone = parse_timedatectl(sources.answer_of("clock"))
    except Unreadable as error:
        sources.problems.add("time.synchronised", error)
    return {"synchronised": synchronised, "utc": utc_now(), "timezone": timezone}


def parse_timedatectl(text: str) -> tuple[bool, str | None]:
    """Return `NTPSynchronized` and `Timezone` of `timedatectl show`.

    Raises Unreadable.
    """
    values = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    word = values.get("NTPSynchronized")
    if word not in {"yes", "no"}:
        raise Unreadable("timedatectl: no NTPSynchronized in its answer")
    return word == "yes", values.get("Timezone") or None
