"""Why each value of a plan is what it is."""

from __future__ import annotations

from ironlease.errors import UsageError
from ironlease.plan.model import Decision, Plan
from ironlease.suggest import did_you_mean


def explain(plan: Plan, key: str | None = None) -> list[Decision]:
    """Return all decisions, those of a role (``pytorch``), or one with its items (``node_tuning.sysctl``).

    Raises UsageError with the nearest keys for a key that the plan does not have.
    """
    if key is None:
        return list(plan.decisions)
    chosen = [decision for decision in plan.decisions if _matches(decision.key, key)]
    if not chosen:
        known = {decision.key for decision in plan.decisions} | set(plan.values)
        raise UsageError(
            code="unknown-key",
            found=f"The plan of {plan.host} has no value {key!r}.",
            needed=f"A role or one of its values: {did_you_mean(key, known)}",
            next_step=f"invoke explain --host {plan.host}",
        )
    return chosen


def _matches(decision_key: str, key: str) -> bool:
    return decision_key == key or decision_key.startswith((f"{key}.", f"{key}["))
