"""Reads the probe, and remembers what the plan needed and did not get.

Nothing is assumed for a part that is null, missing or of another kind: the reader returns None, and the part is named
in :attr:`Facts.missing` with the probe's own reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ironlease.errors import ExitCode, IronleaseError

SCHEMA = "ironlease.probe/1"
_Kind = TypeVar("_Kind")


class ProbeForeignError(IronleaseError):
    """The probe is of another version than this plan reads."""

    code = "probe-foreign"
    exit_code = ExitCode.USAGE


class Facts:
    """The parts of one probe by their dotted names, such as ``os.id``."""

    def __init__(self, probe: Mapping[str, Any]) -> None:
        if probe.get("schema") != SCHEMA:
            raise ProbeForeignError(
                found=f"The probe says that it is {probe.get('schema')!r}.",
                needed=f"{SCHEMA}, which this version reads.",
                next_step="Probe the host again with this version: invoke probe --host HOST",
            )
        self._probe = probe
        self.missing: dict[str, str] = {}

    def text(self, part: str) -> str | None:
        """Return a text that the plan needs, or None and a note in :attr:`missing`."""
        return self._need(part, str)

    def number(self, part: str) -> int | None:
        """Return a whole number that the plan needs, or None and a note in :attr:`missing`."""
        value = self._need(part, int)
        return None if isinstance(value, bool) else value

    def flag(self, part: str) -> bool | None:
        """Return a boolean that the plan needs, or None and a note in :attr:`missing`."""
        return self._need(part, bool)

    def entries(self, part: str) -> list[dict[str, Any]]:
        """Return a list that the plan needs; an empty one and a note in :attr:`missing` when it is not known."""
        return self._need(part, list) or []

    def mapping(self, part: str) -> dict[str, Any]:
        """Return a mapping that the plan needs; an empty one and a note in :attr:`missing` when it is not known."""
        return self._need(part, dict) or {}

    def peek(self, part: str) -> Any:
        """Return a part that is good to know; None when it is not known, and nobody minds."""
        value: Any = self._probe
        for step in part.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        return value

    def why_unknown(self, part: str) -> str:
        """Return the probe's own word on why ``part`` is not known."""
        for problem in self._probe.get("problems") or []:
            name = str(problem.get("part"))
            if part == name or part.startswith(f"{name}.") or name.startswith(f"{part}."):
                return str(problem.get("reason"))
        return "the probe gives no reason"

    def _need(self, part: str, kind: type[_Kind]) -> _Kind | None:
        value = self.peek(part)
        if isinstance(value, kind):
            return value
        self.missing[part] = self.why_unknown(part) if value is None else f"it is {type(value).__name__}"
        return None
