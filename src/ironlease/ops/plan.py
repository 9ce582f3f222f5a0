"""``invoke plan``: what provisioning would decide and change, and how long it would take."""

from __future__ import annotations

from ironlease.console import Table
from ironlease.errors import IronleaseError
from ironlease.inventory import Host
from ironlease.ops import fleet, hosts, provision_report
from ironlease.ops.context import Context
from ironlease.ops.enrol import FirstContact, enrol_hosts
from ironlease.ops.examine import Examiner
from ironlease.ops.passwords import Passwords
from ironlease.ops.result import Result
from ironlease.plan import Plan


def run(context: Context, *, host: list[str], group: str | None = None, stack: str | None = None) -> Result:
    """Show the hosts' plans; nothing on them is changed."""
    chosen = hosts.select(context, host, group)
    plans, errors = resolve(context, chosen, stack)
    lines: list[str | Table] = []
    for plan in plans.values():
        errors.extend(finding.as_error(plan.host) for finding in plan.blocking)
        lines.extend(_lines(plan))
    return Result(
        data={"hosts": {name: plan.to_json() for name, plan in plans.items()}},
        lines=lines,
        summary=f"{provision_report.counted(len(plans), 'plan')}; nothing was changed.",
        errors=errors,
    )


def resolve(context: Context, chosen: hosts.Chosen, stack: str | None) -> tuple[dict[str, Plan], list[IronleaseError]]:
    """Return the plan of each chosen host as it is now, and what went wrong with others."""
    passwords = Passwords(context.console, None)
    enrolled, errors = enrol_hosts(context, chosen, FirstContact(), passwords)
    examiner = Examiner(context, chosen, stack=stack, passwords=passwords)

    def plan_of(one: Host) -> Plan:
        examined = examiner.examine(one, lock=False)
        examined.close()
        context.run_folder.write_json(f"hosts/{one.name}/probe.json", examined.probe)
        context.run_folder.write_json(f"hosts/{one.name}/plan.json", examined.plan.to_json())
        return examined.plan

    ready = [one for one in chosen.hosts if one.name in enrolled]
    plans, failed = fleet.each(ready, lambda one: one.name, plan_of)
    return plans, [*errors, *failed]


def _lines(plan: Plan) -> list[str | Table]:
    table = Table(("touched", "what", "by", "state"))
    for change in plan.changes:
        state = "new" if change.state == "new" else "changed where it differs"
        table.rows.append((change.kind, change.what, change.role, state))
    reboots = [f"reboot: {reason}" for reason in plan.reboots.reasons] or ["reboots: none"]
    minutes = [f"  {part.minutes:5.1f} min  {part.what} ({part.arithmetic})" for part in plan.estimate_minutes.parts]
    notes = [
        f"{finding.severity}: {finding.found} {finding.next_step}"
        for finding in plan.findings
        if finding.severity != "block"
    ]
    return [provision_report.plan_line(plan), table, *reboots, "estimate:", *minutes, *notes]
