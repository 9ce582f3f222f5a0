"""Why each value of a plan is what it is."""

from __future__ import annotations

import json

from ironlease.errors import UsageError
from ironlease.plan.model import Decision, Plan
from ironlease.suggest import did_you_mean

_SHOWN_CHARACTERS = 200


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


def lines(decision: Decision) -> list[str]:
    """Return a decision as people read it: the value, why, on what it rests, and what would change it."""
    indent = "  " if decision.is_item else ""
    shown = f"skipped ({decision.skipped})" if decision.skipped else _shown(decision.value)
    return [
        f"{indent}{decision.key} = {shown}",
        f"{indent}    because {decision.reason}",
        f"{indent}    rests on {decision.evidence} (source: {decision.source})",
        f"{indent}    changes with {decision.changes_with}",
    ]


def _shown(value: object) -> str:
    """Return a value on one line; of a long list the length and the names of its entries."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > _SHOWN_CHARACTERS:
        names = [f"{item['name']} {item.get('version', '')}".strip() for item in value if "name" in item]
        text = f"{len(value)} entries: {', '.join(names)}"
    return text


def _matches(decision_key: str, key: str) -> bool:
    return decision_key == key or decision_key.startswith((f"{key}.", f"{key}["))
