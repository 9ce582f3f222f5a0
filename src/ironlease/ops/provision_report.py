"""What ``invoke provision`` shows: the plan before, the changes and the verdict after."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ironlease import lease
from ironlease.changes import Change
from ironlease.console import Table
from ironlease.errors import IronleaseError
from ironlease.ops.context import Context
from ironlease.ops.examine import Examined
from ironlease.ops.prove import Proof
from ironlease.ops.result import Result
from ironlease.plan import Plan

_MAX_SHOWN = 8


@dataclass
class HostReport:
    """What became of one host.

    ``observed`` is true when everything was found as wanted and no role had to run; otherwise ``differences`` holds
    what was not, where that is known.
    """

    name: str
    started: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    changes: list[Change] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    errors: list[IronleaseError] = field(default_factory=list)
    reboots: int = 0
    observed: bool = False
    differences: list[dict[str, Any]] = field(default_factory=list)
    proof: Proof | None = None

    def finish(self) -> None:
        """Take the time."""
        self.seconds = round(time.monotonic() - self.started, 1)

    @property
    def verdict(self) -> str:
        """The verdict word: a host that was not proved is unknown, whatever else went well."""
        if self.proof is not None:
            return self.proof.verdict
        return "fail" if self.errors else "unknown"

    def to_json(self) -> dict[str, Any]:
        """Return the host's entry in ``--json``."""
        proof = None
        if self.proof is not None:
            proof = {
                "fresh": self.proof.fresh,
                "seconds": round(self.proof.seconds, 2),
                "backend": self.proof.training.get("backend"),
                "manifest_digest": self.proof.manifest["digest"],
            }
        return {
            "changed": len(self.changes),
            "failed": len(self.errors),
            "reboots": self.reboots,
            "seconds": self.seconds,
            "verdict": self.verdict,
            "observed": self.observed,
            "changes": [change.to_json() for change in self.changes],
            "undecided": self.undecided,
            "proof": proof,
        }


def needs_agreement(pending: list[Examined]) -> list[str]:
    """Return what in the plans a person should have read: warnings, and reboots."""
    reasons: list[str] = []
    for examined in pending:
        name = examined.host.name
        reasons.extend(f"{name}: {finding.found}" for finding in examined.warnings)
        if examined.plan.reboots.count:
            reasons.append(f"{name}: {counted(examined.plan.reboots.count, 'reboot')}")
    return reasons


def show_plans(context: Context, pending: list[Examined], reports: Mapping[str, HostReport]) -> None:
    """Say what is about to be done, in one line for each host and one for each thing that was found there."""
    for examined in pending:
        plan = examined.plan
        context.console.note(plan_line(plan))
        for line in _to_mend(reports[plan.host].differences):
            context.console.note(f"{plan.host}: {line}")
        for finding in plan.findings:
            say = context.console.warn if finding.severity == "warn" else context.console.note
            say(f"{finding.found} {finding.next_step}")
    which = pending[0].host.name if len(pending) == 1 else "HOST"
    context.console.note(f"Reasons: invoke explain --host {which}")


def _to_mend(differences: list[dict[str, Any]]) -> list[str]:
    """Return what was found on the host not to be as the last provisioning left it."""
    lines = [
        f"not known: {one['target']}: {one['reason']}" if one["state"] == "unknown" else f"to mend: {one['target']}"
        for one in differences[:_MAX_SHOWN]
    ]
    more = len(differences) - len(lines)
    return [*lines, f"and {more} more"] if more else lines


def plan_line(plan: Plan) -> str:
    """Return a plan in one sentence: its new things by kind, its reboots, its minutes."""
    label = f" [SIMULATED: {plan.simulated}]" if plan.simulated else ""
    new = [change.kind for change in plan.changes if change.state == "new"]
    counts = [counted(new.count(kind), kind) for kind in sorted(set(new))]
    if plan.reboots.count:
        counts.append(counted(plan.reboots.count, "reboot"))
    work = ", ".join(counts) or "nothing new"
    return f"{plan.host}{label}: stack {plan.stack.name}: {work}; about {max(plan.estimate_minutes.total, 1):.0f} min."


def counted(number: int, noun: str) -> str:
    """Return ``1 file``, ``2 files``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def result(context: Context, reports: list[HostReport], *, check: bool) -> Result:
    """Return the outcome over all hosts."""
    for report in reports:
        if not report.seconds:
            report.finish()
    lines: list[str | Table] = []
    for report in reports:
        verb = "would change" if check else "changed"
        lines.extend(f"{report.name}: {verb}: {change.role}: {change.what}" for change in report.changes)
        lines.extend(f"{report.name}: known only when it is done: {task}" for task in report.undecided)
    if len(reports) > 1:
        lines.append(_table(reports, check=check))
    return Result(
        data={"hosts": {report.name: report.to_json() for report in reports}},
        lines=lines,
        summary=_summary(reports, check=check),
        errors=[error for report in reports for error in report.errors],
    )


def _table(reports: list[HostReport], *, check: bool) -> Table:
    table = Table(("host", "verdict", "would change" if check else "changed", "failed", "reboots", "seconds"))
    for report in reports:
        table.rows.append(
            (
                report.name,
                "failed" if report.errors else "checked" if check else report.verdict,
                str(len(report.changes)),
                str(len(report.errors)),
                str(report.reboots),
                f"{report.seconds:.1f}",
            )
        )
    return table


def _summary(reports: list[HostReport], *, check: bool) -> str:
    if len(reports) > 1:
        good = sum(not report.errors for report in reports)
        return f"{good} of {len(reports)} hosts {'checked' if check else 'provisioned and proved'}."
    (report,) = reports
    if report.errors:
        return f"{report.name}: not {'checked' if check else 'provisioned'} ({report.seconds:.1f} s)."
    things = counted(len(report.changes), "thing")
    if check:
        return f"{report.name}: {things} would change; nothing was changed ({report.seconds:.1f} s)."
    return f"{report.name}: {things} changed, {_proved(report)} ({report.seconds:.1f} s)."


def _proved(report: HostReport) -> str:
    assert report.proof is not None, "a host without errors was proved"  # noqa: S101 - states an invariant
    training = report.proof.training
    when = datetime.fromisoformat(report.proof.document["at"])
    proved = "trained just now" if report.proof.fresh else f"proved by the training of {lease.shown_time(when)}"
    return f"{proved} ({training['world_size']} processes over {training['backend']}): {report.verdict}"
