"""Decides: stack + probe + inventory become one plan for one host, each value with its reason.

Pure: the same inputs give the same plan. docs/reference/plan.md describes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ironlease.finding import Finding
from ironlease.inventory import Host
from ironlease.plan import changes, decisions, estimate, gates
from ironlease.plan.case import Case
from ironlease.plan.facts import Facts
from ironlease.plan.model import Change, Decision, Estimate, Plan, Reboots, StackReference
from ironlease.stack import Stack
from ironlease.stack.catalog import Catalog, load_catalog

__all__ = ["Change", "Decision", "Estimate", "Finding", "Plan", "Reboots", "resolve"]


def resolve(
    stack: Stack,
    probe: Mapping[str, Any],
    host: Host,
    now: datetime,
    *,
    agent_sha256: str,
    catalog: Catalog | None = None,
) -> Plan:
    """Return the plan for ``host``.

    ``probe`` is an ``ironlease.probe/1``, ``now`` a time with its offset, ``agent_sha256`` the hash of the agent's file
    that will stay on the host. What the plan needs and the probe does not know becomes a blocking finding, never a
    default. Raises ProbeForeignError for a probe of another version.
    """
    case = Case(stack, Facts(probe), host, now, agent_sha256, catalog or load_catalog())
    made = decisions.decide(case)
    plan = Plan(
        host=host.name,
        stack=StackReference(name=stack.name, sha256=stack.sha256),
        simulated=case.facts.peek("simulated"),
        decisions=tuple(made),
        findings=(),
        changes=(),
        reboots=Reboots(),
        estimate_minutes=Estimate(total=0, parts=()),
    )
    expected = changes.expected(case, plan.values)
    expected_time = estimate.estimate(case, expected)
    findings = gates.examine(case, expected_time.total)
    made.append(decisions.preflight(findings))
    return plan.model_copy(
        update={
            "decisions": tuple(sorted(made, key=lambda decision: decision.key)),
            "findings": tuple(findings),
            "changes": tuple(expected),
            "estimate_minutes": expected_time,
        }
    )
