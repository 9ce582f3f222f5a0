"""``invoke status``: one table for the fleet."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ironlease import enrol, lease, provision_record, ssh
from ironlease.console import Table
from ironlease.errors import ExitCode, UnreachableError
from ironlease.inventory import Host
from ironlease.ops import fleet, hosts
from ironlease.ops.context import Context
from ironlease.ops.result import Result
from ironlease.ops.session import target_of

CONNECT_TIMEOUT_SECONDS = 8.0


def run(context: Context, *, host: list[str], group: str | None = None) -> Result:
    """Show each host: reachable, stack, last provisioning, lease left.

    Only lab hosts that are named are brought up, as in every task; looking at the fleet starts nothing.
    """
    chosen = hosts.select(context, host, group, default_all=True, bring_up=bool(host))
    now = context.clock()
    down = {one.name: one.state for one in chosen.lab.list() if one.state != "running"} if chosen.lab else {}

    def look(one: Host) -> dict[str, Any]:
        reachable = f"no: {down[one.name]}" if one.name in down else _reachable(context, chosen, one)
        return {"reachable": reachable, **_entry(context, chosen, one, now)}

    entries, errors = fleet.each(chosen.hosts, lambda one: one.name, look)
    table = Table(("host", "reachable", "stack", "last provisioned", "verdict", "lease left"))
    for name, entry in entries.items():
        last = entry["last_provision"]
        table.rows.append(
            (
                name,
                entry["reachable"],
                entry["stack"] or "none",
                lease.shown_time(datetime.fromisoformat(last["at"])) if last else "never",
                last["verdict"] if last else "unknown",
                entry["lease_left"] or "not given",
            )
        )
    away = [name for name, entry in entries.items() if entry["reachable"] != "yes"]
    return Result(
        data={"hosts": entries},
        lines=[table],
        summary=f"{len(entries) - len(away)} of {len(entries)} reachable.",
        errors=errors,
        exit_code=ExitCode.UNREACHABLE if away else ExitCode.OK,
    )


def _entry(context: Context, chosen: hosts.Chosen, one: Host, now: datetime) -> dict[str, Any]:
    address = target_of(context.project, chosen.inventory, one).known_hosts_name
    return {
        "stack": one.stack,
        "last_provision": provision_record.load(context.project, one.name, address),
        "lease_ends_at": one.lease.ends_at.isoformat() if one.lease else None,
        "lease_left": lease.shown_time_left(one.lease, now) if one.lease else None,
    }


def _reachable(context: Context, chosen: hosts.Chosen, one: Host) -> str:
    """Return ``yes``, or in a few words why not."""
    target = target_of(context.project, chosen.inventory, one)
    vouched = chosen.vouched_key(one.name)
    try:
        if vouched is not None:
            enrol.pin_host_key(context.project, target, vouched=vouched, fingerprint=None, confirm=None)
        ssh.connect(target, context.project.known_hosts, timeout_seconds=CONNECT_TIMEOUT_SECONDS).close()
    except ssh.HostKeyUnknownError:
        return "no: not enrolled"
    except UnreachableError as error:
        return f"no: {error.code}"
    return "yes"
