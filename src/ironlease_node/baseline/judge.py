"""Judges what the two phases of the training reported. Pure: figures in, verdict out."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

PASS = "pass"  # noqa: S105 - a verdict, not a password
FAIL = "fail"
UNKNOWN = "unknown"

# Over so many steps at the start and the end the loss is averaged: single batches are noisy.
WINDOW_STEPS = 5
# On random data it would stay where it was; the real task falls to about a tenth (tests measure it).
LARGEST_LOSS_RATIO = 0.5
# On a GPU sums are made in an order that may differ; a lost optimizer or random state differs by far more.
GPU_RELATIVE_TOLERANCE = 1e-4


class Check(NamedTuple):
    """One thing that was looked at."""

    name: str
    verdict: str
    detail: str


def judge(train: dict[str, Any], resume: dict[str, Any], uid: int) -> list[Check]:
    """Return every check of a training whose two phases both reported.

    Raises KeyError, TypeError or ValueError when a report is not what the training writes.
    """
    losses, continued, repeated = train["losses"], train["continued"], resume["continued"]
    everything = [*losses, *continued, *repeated]
    tolerance = 0.0 if train["bit_equal_expected"] else GPU_RELATIVE_TOLERANCE
    first, last = _mean(losses[:WINDOW_STEPS]), _mean(losses[-WINDOW_STEPS:])
    return [
        _check("unprivileged", train["uid"] == resume["uid"] == uid != 0, f"it ran as the user with the number {uid}"),
        _check("finite", all(math.isfinite(loss) for loss in everything), f"{len(everything)} losses"),
        _check("learns", last <= LARGEST_LOSS_RATIO * first, f"mean loss {first:.4g} at first, {last:.4g} at last"),
        _check(
            "ranks-agree",
            train["ranks_agree"] is True and resume["ranks_agree"] is True,
            f"one SHA-256 of the parameters on {train['world_size']} ranks",
        ),
        _check(
            "checkpoint-whole",
            train["checksum_at_checkpoint"] == resume["checksum_at_checkpoint"],
            "parameters as saved and as loaded",
        ),
        _check("continues", _equal(continued, repeated, tolerance), _describe(continued, repeated, tolerance)),
    ]


def verdict_of(checks: list[Check]) -> tuple[str, str | None]:
    """Return the verdict over all checks, and a reason unless it is a pass."""
    failed = [f"{check.name}: {check.detail}" for check in checks if check.verdict != PASS]
    return (FAIL, "; ".join(failed)) if failed else (PASS, None)


def _check(name: str, good: bool, detail: str) -> Check:
    return Check(name, PASS if good else FAIL, detail)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _equal(one: list[float], other: list[float], tolerance: float) -> bool:
    # An empty list would be equal to itself and prove nothing.
    return (
        bool(one)
        and len(one) == len(other)
        and all(math.isclose(left, right, rel_tol=tolerance, abs_tol=0.0) for left, right in zip(one, other))
    )


def _describe(one: list[float], other: list[float], tolerance: float) -> str:
    largest = max((abs(left - right) for left, right in zip(one, other)), default=math.nan)
    return (
        f"{len(one)} steps without a break and {len(other)} from the checkpoint, "
        f"largest difference of the loss {largest:.3g}, allowed relative difference {tolerance:g}"
    )
