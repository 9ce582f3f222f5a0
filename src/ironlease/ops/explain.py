"""``invoke explain``: why each value of a host's plan is what it is."""

from __future__ import annotations

from ironlease.ops import hosts
from ironlease.ops.context import Context
from ironlease.ops.plan import resolve
from ironlease.ops.result import Result
from ironlease.plan import explain


def run(context: Context, *, host: str, key: str | None = None) -> Result:
    """Explain one value of the plan, or all of them."""
    chosen = hosts.select(context, [host], None)
    plans, errors = resolve(context, chosen, None)
    if host not in plans:
        return Result(data={"decisions": []}, errors=errors)
    explained = explain.explain(plans[host], key)
    return Result(
        data={"host": host, "decisions": [decision.model_dump(mode="json") for decision in explained]},
        lines=[line for decision in explained for line in explain.lines(decision)],
        summary=f"{host}: {len(explained)} of the plan's values explained.",
        errors=errors,
    )
