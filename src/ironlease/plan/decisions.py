"""The values for the roles that prepare a host and build its training environment."""

from __future__ import annotations

from datetime import UTC

from pydantic import JsonValue

from ironlease.finding import Finding
from ironlease.inventory import DEFAULT_TRAINING_USER, variable_name
from ironlease.plan import dpkg, tuning
from ironlease.plan.case import Case
from ironlease.plan.model import Decision
from ironlease_node.places import OPT

# unattended-upgrades after a first boot takes minutes, and a user would rather wait than start again.
APT_LOCK_WAIT_SECONDS = 600
# What keeps time, in the order of preference, with its unit. Debian and Ubuntu name them alike.
TIME_SERVICES = {
    "chrony": "chrony.service",
    "systemd-timesyncd": "systemd-timesyncd.service",
    "ntpsec": "ntpsec.service",
    "ntp": "ntp.service",
}
NODE_SCHEMA = "ironlease.node/1"


def decide(case: Case) -> list[Decision]:
    """Return the decisions of all roles but host_preflight, which depends on the findings."""
    return [*_host_base(case), *tuning.decide(case), *_pytorch(case), *_node_agent(case)]


def preflight(findings: list[Finding]) -> Decision:
    """Return the decision of the role host_preflight: what stands in the way."""
    blocking: JsonValue = [
        {"code": one.code, "found": one.found, "needed": one.needed, "next_step": one.next_step}
        for one in findings
        if one.severity == "block"
    ]
    return Decision(
        key="host_preflight.findings",
        value=blocking,
        reason="the role refuses the host while anything stands in the way"
        if blocking
        else "nothing stands in the way",
        evidence="all gates of the plan",
        source="probe",
        changes_with="each finding's own next step",
    )


def _host_base(case: Case) -> list[Decision]:
    packages = [] if case.distribution is None else case.distribution.packages
    repair = dpkg.repair_is_needed_and_safe(case)
    return [
        Decision(
            key="host_base.packages",
            value=list(packages),
            reason="what the roles need from the distribution, by the names that it has there",
            evidence=f"stack: distributions, entry {_distribution_name(case)}",
            source="stack",
            changes_with=f"distributions in stacks/{case.stack.name}.yml",
        ),
        Decision(
            key="host_base.apt_lock_wait_seconds",
            value=apt_lock_wait_seconds(case),
            reason="an automatic upgrade after a first boot holds the lock for minutes, and ends by itself",
            evidence=f"probe: apt.locks has {len(case.facts.peek('apt.locks') or [])} entries",
            source="default" if case.host.apt_lock_wait_seconds is None else "inventory",
            changes_with=f"{variable_name('apt_lock_wait_seconds')} in the inventory",
        ),
        Decision(
            key="host_base.repair_dpkg",
            value=repair,
            reason="dpkg was stopped between unpacking and configuring, and only has to go on"
            if repair
            else "dpkg has nothing unfinished that could be finished safely",
            evidence="probe: apt.dpkg_interrupted, broken_packages",
            source="probe",
            changes_with="the state of dpkg on the host",
        ),
        *_time_sync(case),
        _user(case),
    ]


def apt_lock_wait_seconds(case: Case) -> int:
    """Return how long apt's and dpkg's locks are waited for."""
    chosen = case.host.apt_lock_wait_seconds
    return APT_LOCK_WAIT_SECONDS if chosen is None else chosen


def _distribution_name(case: Case) -> str:
    entry = case.distribution
    return "none" if entry is None else f"{entry.id} {entry.release}"


def _time_sync(case: Case) -> list[Decision]:
    installed = next((name for name in TIME_SERVICES if name in case.packages), None)
    package = installed or next(iter(TIME_SERVICES))
    may_set = case.facts.flag("kernel_permits.set_clock")
    whole = Decision(
        key="host_base.time_sync",
        value={"package": package, "unit": TIME_SERVICES[package], "active": bool(may_set)},
        reason=f"{package} is there already and keeps the time"
        if installed
        else "nothing here keeps the time; chrony also corrects a clock that is far off",
        evidence=f"probe: packages has {installed or 'none of ' + ', '.join(TIME_SERVICES)}",
        source="probe" if installed else "default",
        changes_with="another time service, installed before provisioning",
    )
    if may_set:
        return [whole]
    item = Decision(
        key="host_base.time_sync[active]",
        value=None,
        reason="the service's own condition (ConditionCapability=CAP_SYS_TIME) keeps it off where it could do nothing",
        evidence=f"probe: kernel_permits.set_clock is {may_set}",
        source="probe",
        changes_with="a host whose kernel lets root set the clock",
        skipped="this kernel lets nobody set the clock; whoever runs the kernel keeps the time",
    )
    return [whole, item]


def _user(case: Case) -> Decision:
    variable = variable_name("training_user")
    is_chosen = case.host.training_user != DEFAULT_TRAINING_USER
    return Decision(
        key="host_base.user",
        value=case.host.training_user,
        reason="trainings run without root's rights",
        evidence=f"inventory: {variable}" if is_chosen else f"inventory: no {variable}",
        source="inventory" if is_chosen else "default",
        changes_with=f"{variable} in the inventory",
    )


def _pytorch(case: Case) -> list[Decision]:
    python, entry = case.stack.python, case.distribution
    own_index = case.host.index_url
    packages: JsonValue = [
        {"name": package.name, "version": package.version, "sha256": list(package.sha256)}
        for package in python.packages
    ]
    file = f"stacks/{case.stack.name}.yml"
    return [
        Decision(
            key="pytorch.environment",
            value=case.environment,
            reason="one folder for each stack: a change of stack leaves the old environment as it is",
            evidence=f"stack: name {case.stack.name}",
            source="stack",
            changes_with=variable_name("stack") + " in the inventory, or --stack",
        ),
        Decision(
            key="pytorch.python",
            value=None if entry is None else entry.python,
            reason="the distribution's own interpreter, which gets its security updates",
            evidence=f"stack: distributions, entry {_distribution_name(case)}",
            source="stack",
            changes_with=f"distributions in {file}, or another operating system",
        ),
        Decision(
            key="pytorch.packages",
            value=packages,
            reason=f"{', '.join(python.requires)} and all that follows from it, by version and hash",
            evidence=f"stack: python.packages ({len(python.packages)} pins)",
            source="stack",
            changes_with=f"python.requires in {file}, then python -m ironlease.stack.pin {case.stack.name}",
        ),
        Decision(
            key="pytorch.index_url",
            value=own_index or python.index_url,
            reason="asked only for what pip's own configuration on the host does not find; the hashes stay the same",
            evidence=f"inventory: {variable_name('index_url')}" if own_index else "stack: python.index_url",
            source="inventory" if own_index else "stack",
            changes_with=f"{variable_name('index_url')} in the inventory",
        ),
    ]


def _node_agent(case: Case) -> list[Decision]:
    lease = case.host.lease
    settings: JsonValue = {
        "schema": NODE_SCHEMA,
        "host": case.host.name,
        "stack": case.stack.name,
        "stack_sha256": case.stack.sha256,
        "environment": case.environment,
        "user": case.host.training_user,
        "lease_ends_at": None if lease is None else lease.ends_at.astimezone(UTC).isoformat(),
    }
    return [
        Decision(
            key="node_agent.directory",
            value=f"{OPT}/node",
            reason="the agent stays on the host and works when the control side is gone",
            evidence="none needed",
            source="default",
            changes_with="nothing; other programs look for it there",
        ),
        Decision(
            key="node_agent.agent",
            value=case.agent_sha256,
            reason="the file that was built from this checkout, and no other",
            evidence="the agent's file on the control side",
            source="default",
            changes_with="another version of ironlease",
        ),
        Decision(
            key="node_agent.settings",
            value=settings,
            reason="what the agent must know of its host; nothing secret, every user can read it",
            evidence=f"inventory: {case.host.name}; stack: {case.stack.name}",
            source="inventory",
            changes_with="the host's lease, stack or training user in the inventory",
        ),
    ]
