"""The host side's way to say no: what was found, what is needed, what to do next."""

from __future__ import annotations

from typing import Any

SCHEMA = "ironlease.refusal/1"


class Refusal(Exception):  # noqa: N818 - a refusal is an answer, not an error of the program
    """An expected refusal; the agent prints it as JSON and exits with 2. ``code`` is a stable word for programs."""

    def __init__(self, *, code: str, found: str, needed: str, next_step: str) -> None:
        super().__init__(found)
        self.code = code
        self.found = found
        self.needed = needed
        self.next_step = next_step

    def as_dict(self) -> dict[str, Any]:
        """Return the object that is printed; ``error`` is the whole text for a reader."""
        return {
            "schema": SCHEMA,
            "code": self.code,
            "error": f"{self.found} Needed: {self.needed} Next: {self.next_step}",
            "found": self.found,
            "needed": self.needed,
            "next": self.next_step,
        }


def required_text(request: dict[str, Any], key: str, command: str) -> str:
    """Return a key of the request that must be a non-empty string.

    Raises Refusal.
    """
    value = request.get(key)
    if isinstance(value, str) and value:
        return value
    raise Refusal(
        code="bad-input",
        found=f"The request has no text under `{key}`.",
        needed=f"`{key}`, a non-empty string.",
        next_step=f"Send it: docs/developer/architecture.md has the request of `{command}`.",
    )


def required_seconds(request: dict[str, Any], key: str, command: str) -> float:
    """Return a key of the request that must be a number of seconds above zero.

    Raises Refusal.
    """
    value = request.get(key)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise Refusal(
        code="bad-input",
        found=f"The request has no number of seconds under `{key}`.",
        needed=f"`{key}`, a number above zero.",
        next_step=f"Send it: docs/developer/architecture.md has the request of `{command}`.",
    )
