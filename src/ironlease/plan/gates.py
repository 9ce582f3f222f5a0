"""What stands in the way of provisioning, and what people should know: all checks run, then the whole list is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from ironlease import lease as leases
from ironlease.errors import ExitCode
from ironlease.finding import Finding, Severity
from ironlease.inventory import variable_name
from ironlease.plan import dpkg, hardware
from ironlease.plan.case import Case
from ironlease.plan.decisions import apt_lock_wait_seconds
from ironlease.plan.estimate import BACKUP_MINUTES
from ironlease_node.places import ENVIRONMENTS

# Byte code comes on top of what the wheels hold: 0.96 GB for 0.80 GB were measured; the rest is room to breathe.
ENVIRONMENT_OVERHEAD = 1.3
# Packages, lists and logs beside the environment, and where they go.
SYSTEM_BYTES = 1 << 30
SYSTEM_FOLDER = "/var/cache/apt/archives"
MAX_CLOCK_SKEW = timedelta(minutes=5)


def examine(case: Case, estimate_minutes: float) -> list[Finding]:
    """Return all findings for ``case``, blocking ones first, in a stable order."""
    findings = [finding for gate in _GATES for finding in gate(case)]
    findings += _lease(case, estimate_minutes)
    # Last: only now is it known what the plan asked the probe for and did not get.
    findings += _incomplete(case)
    order: dict[Severity, int] = {"block": 0, "warn": 1, "note": 2}
    return sorted(findings, key=lambda finding: order[finding.severity])


def _simulated(case: Case) -> Iterator[Finding]:
    profile = case.facts.peek("simulated")
    if profile is not None:
        yield Finding(
            code="simulated",
            severity="note",
            found=f"SIMULATED: the hardware of {case.host.name} is the profile {profile}.",
            needed="Real hardware, for anything but trying this program.",
            next_step="Nothing: labels change and nothing else.",
        )


def _system(case: Case) -> Iterator[Finding]:
    id_, release = case.facts.text("os.id"), case.facts.text("os.version_id")
    if id_ is not None and release is not None and case.distribution is None:
        supported = [f"{entry.id} {entry.release}" for entry in case.stack.distributions]
        yield Finding(
            code="distribution-unsupported",
            severity="block",
            found=f"{case.host.name} runs {case.facts.peek('os.pretty_name') or f'{id_} {release}'}.",
            needed=f"A system that {case.stack.name} was made for: {', '.join(supported)}.",
            next_step="Have the lessor install one of these, or choose another stack: invoke stacks",
        )
    architecture = case.facts.text("os.architecture")
    if architecture is not None and architecture != case.stack.architecture:
        yield Finding(
            code="architecture-unsupported",
            severity="block",
            found=f"{case.host.name} is a machine of architecture {architecture}.",
            needed=f"{case.stack.architecture}: the hashes of {case.stack.name} are those of its wheels.",
            next_step="Choose another stack: invoke stacks",
        )


def _rights(case: Case) -> Iterator[Finding]:
    sudo, user = case.facts.text("user.sudo"), case.facts.peek("user.name")
    if sudo == "none":
        yield Finding(
            code="no-sudo",
            severity="block",
            found=f"{user} on {case.host.name} is not root and may not become it.",
            needed="Login as root, or a user with sudo.",
            next_step=f"Set ansible_user: root for {case.host.name} in the inventory, or give {user} sudo rights.",
        )
    elif sudo == "unknown":
        yield Finding(
            code="sudo-unknown",
            severity="block",
            exit_code=int(ExitCode.UNKNOWN),
            found=f"Whether {user} may use sudo on {case.host.name} is unknown: {case.facts.why_unknown('user.sudo')}.",
            needed="A clear answer of sudo on the host.",
            next_step="On the host: sudo -v, then run the same command again.",
        )


def _disk(case: Case) -> Iterator[Finding]:
    environment, system = case.mount_of(ENVIRONMENTS), case.mount_of(SYSTEM_FOLDER)
    if environment is None or system is None:
        return
    contents = f"for {case.stack.name}: the wheels and their content"
    if environment is system:
        yield from _room(case, environment, environment_bytes(case) + SYSTEM_BYTES, f"{contents}, and packages")
    else:
        yield from _room(case, environment, environment_bytes(case), contents)
        yield from _room(case, system, SYSTEM_BYTES, "for the system's packages, lists and logs")


def _room(case: Case, mount: dict[str, Any], needed: int, purpose: str) -> Iterator[Finding]:
    path, available = mount.get("path"), mount.get("available_bytes")
    if not isinstance(available, int):
        case.facts.missing["mounts.available_bytes"] = f"not known for {path}"
    elif mount.get("read_only") is True:
        yield Finding(
            code="disk-read-only",
            severity="block",
            found=f"{path} on {case.host.name} is mounted read-only.",
            needed="A file system that can be written.",
            next_step=f"On the host: dmesg | grep -i 'remount' (a failing disk does that), mount {path}",
        )
    elif available < needed:
        # Where we were before, the space may be taken by our own work; pip will say if it is not enough.
        severity: Severity = "warn" if case.was_provisioned else "block"
        yield Finding(
            code="disk-full",
            severity=severity,
            found=f"{path} on {case.host.name} has {_gib(available)} free.",
            needed=f"{_gib(needed)} {purpose}.",
            next_step=f"On the host: du -xh --max-depth=2 {path} | sort -h | tail -20",
        )


def environment_bytes(case: Case) -> int:
    """Return the bytes that a new environment needs while it is installed."""
    packages = case.stack.python.packages
    unpacked = sum(package.installed_bytes for package in packages)
    return int(unpacked * ENVIRONMENT_OVERHEAD) + sum(package.download_bytes for package in packages)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _apt_locks(case: Case) -> Iterator[Finding]:
    locks = case.facts.entries("apt.locks")
    if not locks:
        return
    holders = sorted({f"{lock.get('command') or 'a process'} (pid {lock.get('pid')})" for lock in locks})
    yield Finding(
        code="apt-lock-held",
        severity="note",
        found=f"On {case.host.name} the package system is in use by {', '.join(holders)}.",
        needed="The lock of apt and dpkg.",
        next_step=f"Nothing: provisioning waits up to {apt_lock_wait_seconds(case)} s for it.",
    )


def _python(case: Case) -> Iterator[Finding]:
    entry = case.distribution
    if entry is None:
        return
    version = entry.python_version
    for python in case.facts.entries("pythons"):
        usable = python.get("venv") is not False or f"python{version}-venv" not in case.packages
        if str(python.get("path")).startswith("/usr/bin/") and _minor(python.get("version")) == version and not usable:
            yield Finding(
                code="venv-impossible",
                severity="block",
                found=f"{python.get('path')} on {case.host.name} cannot make a virtual environment with pip, "
                f"though python{version}-venv is installed.",
                needed=f"A working python{version}-venv.",
                next_step=f"On the host: apt-get install --reinstall python{version}-venv python3-pip-whl",
            )


def _minor(version: object) -> str:
    return ".".join(str(version).split(".")[:2])


def _clock(case: Case) -> Iterator[Finding]:
    shown = case.facts.peek("time.utc")
    if not isinstance(shown, str):
        return
    skew = abs(datetime.fromisoformat(shown) - case.now)
    if skew > MAX_CLOCK_SKEW:
        yield Finding(
            code="clock-skew",
            severity="warn",
            found=f"The clock of {case.host.name} is {leases.shown_duration(skew)} away from this computer's.",
            needed="A clock that is right: signatures and certificates are refused by a wrong one.",
            next_step="On the host: date --utc, then date --utc --set='YYYY-MM-DD HH:MM:SS'",
        )


def _seller_packages(case: Case) -> Iterator[Finding]:
    found = sorted(name for name in case.packages if name.startswith(("nvidia-", "libnvidia-", "cuda-", "libnccl")))
    if found:
        shown = ", ".join(found[:5]) + (f" and {len(found) - 5} more" if len(found) > 5 else "")
        yield Finding(
            code="seller-nvidia-packages",
            severity="note",
            found=f"{case.host.name} has NVIDIA packages of the seller's: {shown}.",
            needed="One origin for all of them; a mix is what breaks on the next upgrade.",
            next_step="Nothing now: they are saved with the seller's state and left as they are.",
        )


def _reboot_pending(case: Case) -> Iterator[Finding]:
    if case.facts.peek("reboot_required.required") is True:
        yield Finding(
            code="reboot-pending",
            severity="note",
            found=f"{case.host.name} asks for a reboot, from before our time.",
            needed="A running kernel that is the installed one.",
            next_step="Reboot it when it suits you; provisioning does not.",
        )


def _lease(case: Case, estimate_minutes: float) -> Iterator[Finding]:
    lease = case.host.lease
    if lease is None:
        return
    needed = estimate_minutes + BACKUP_MINUTES
    name, variable = case.host.name, variable_name("lease")
    if leases.is_over(lease, case.now):
        yield Finding(
            code="lease-over",
            severity="block",
            found=f"The lease of {name} ended at {leases.shown_time(lease.ends_at)}.",
            needed="A lease that runs; the lessor may take the machine away at any moment.",
            next_step=f"Extend the lease and set {variable}.ends_at of {name} in the inventory.",
        )
    elif leases.is_too_short(lease, case.now, needed):
        yield Finding(
            code="lease-too-short",
            severity="block",
            found=f"The lease of {name} ends at {leases.shown_time(lease.ends_at)}, "
            f"in {leases.shown_time_left(lease, case.now)}.",
            needed=f"{needed:.0f} min: {estimate_minutes:g} to provision, {BACKUP_MINUTES} for a backup.",
            next_step=f"Extend the lease and set {variable}.ends_at of {name} in the inventory.",
        )
    if leases.not_started(lease, case.now) and lease.starts_at is not None:
        yield Finding(
            code="lease-not-started",
            severity="warn",
            found=f"The lease of {name} starts only at {leases.shown_time(lease.starts_at)}.",
            needed="A lease that runs.",
            next_step=f"Check {variable}.starts_at of {name} in the inventory.",
        )


def _incomplete(case: Case) -> Iterator[Finding]:
    missing = case.facts.missing
    if missing:
        parts = "; ".join(f"{part} ({reason})" for part, reason in sorted(missing.items()))
        yield Finding(
            code="probe-incomplete",
            severity="block",
            exit_code=int(ExitCode.UNKNOWN),
            found=f"The probe of {case.host.name} does not know: {parts}.",
            needed="These parts: the plan rests on them, and unknown is not good enough.",
            next_step=f"invoke probe --host {case.host.name}",
        )


_GATES: tuple[Callable[[Case], Iterator[Finding] | list[Finding]], ...] = (
    _simulated,
    _system,
    _rights,
    _disk,
    dpkg.judge,
    _apt_locks,
    _python,
    hardware.judge,
    _seller_packages,
    _reboot_pending,
    _clock,
)
