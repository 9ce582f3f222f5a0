"""What the user probably meant: one mechanism for hosts, stacks, keys and tasks."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

# Below this likeness a suggestion confuses more than it helps; "lab9" against "lab1" has 0.75.
_LIKENESS = 0.6
_SPREAD = 0.1


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
    scored.sort()
    # A long common prefix makes everything look alike; only what comes close to the best is worth a word.
    return [candidate for score, candidate in scored[:limit] if score <= scored[0][0] + _SPREAD]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean x or y?``; when nothing is near, ``one of`` all known names."""
    names = sorted(set(known))
    close = nearest(name, names)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"one of {', '.join(names)}." if names else "there is none yet."


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace("_", "").replace(".", "")
