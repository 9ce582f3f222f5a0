"""What the user probably meant: one mechanism for hosts, stacks, keys and tasks."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

# Below this likeness a suggestion confuses more than it helps; "lab9" against "lab1" has 0.75.
_LIKENESS = 0.6


def nearest(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return at most ``limit`` of the ``known`` names that look most like ``name``, the likeliest first.

    Case, dashes and underscores do not count, and a known name that begins with ``name`` is always offered.
    """
    wanted = _plain(name)
    scored = []
    for candidate in sorted(set(known)):
        plain = _plain(candidate)
        likeness = SequenceMatcher(None, wanted, plain).ratio()
        if wanted and plain.startswith(wanted):
            likeness = max(likeness, 0.9)
        if likeness >= _LIKENESS:
            scored.append((-likeness, candidate))
    return [candidate for _, candidate in sorted(scored)[:limit]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return what the "needed" part of an error says: the nearest known names, or all of them."""
    names = sorted(set(known))
    close = nearest(name, names)
    if close:
        return f"did you mean {_either(close)}?"
    if names:
        return f"one of {', '.join(names)}"
    return "none is known"


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").replace(".", "")


def _either(names: list[str]) -> str:
    return " or ".join(names)
