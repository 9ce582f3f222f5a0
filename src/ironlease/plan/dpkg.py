"""What a seller's half-finished package work means: to be finished, or to be looked at by a person."""

from __future__ import annotations

import re
from typing import Any

from ironlease.finding import Finding
from ironlease.plan.case import Case

# dpkg has everything that it needs to go on from these.
_RESUMABLE_STATES = {"unpacked", "half-configured", "triggers-awaited", "triggers-pending"}
# Configuring these builds kernel modules or changes what boots; that is not ours to try blindly.
_DELICATE_NAMES = re.compile(r"^(nvidia|libnvidia|cuda|dkms|linux-|grub|mlnx|doca)")
_SHOWN_NAMES = 6


def repair_is_needed_and_safe(case: Case) -> bool:
    """Return whether ``dpkg --configure -a`` must run first, and can."""
    return _is_unfinished(case) and not _beyond_repair(case)


def judge(case: Case) -> list[Finding]:
    """Return what there is to say about the state of dpkg."""
    if not _is_unfinished(case):
        return []
    stuck = _beyond_repair(case)
    if not stuck:
        return [
            Finding(
                code="dpkg-unfinished",
                # Finishing somebody else's installation needs agreement; our own, cut off in an earlier run, does not.
                severity="note" if case.was_begun else "warn",
                found=f"dpkg was interrupted on {case.host.name}: {_shown(_broken(case)) or 'a transaction is open'}.",
                needed="A package system without anything half-done.",
                next_step="Nothing else: `dpkg --configure -a` is run first; it only finishes what was begun.",
            )
        ]
    return [
        Finding(
            code="dpkg-broken",
            severity="block",
            found=f"Packages on {case.host.name} are broken: {_shown(stuck)}.",
            needed="A package system that apt can work with; these cannot be finished blindly.",
            next_step=f"On the host: {_cure(stuck)}",
        )
    ]


def _broken(case: Case) -> list[dict[str, Any]]:
    return case.facts.entries("broken_packages")


def _is_unfinished(case: Case) -> bool:
    return bool(_broken(case)) or case.facts.flag("apt.dpkg_interrupted") is True


def _beyond_repair(case: Case) -> list[dict[str, Any]]:
    return [
        package
        for package in _broken(case)
        if package.get("state") not in _RESUMABLE_STATES or _DELICATE_NAMES.match(str(package.get("name")))
    ]


def _shown(packages: list[dict[str, Any]]) -> str:
    names = [f"{package.get('name')} ({package.get('state')})" for package in packages[:_SHOWN_NAMES]]
    more = len(packages) - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _cure(packages: list[dict[str, Any]]) -> str:
    names = " ".join(str(package.get("name")) for package in packages)
    if all(package.get("state") in _RESUMABLE_STATES for package in packages):
        return f"dpkg --configure -a, or apt-get purge {names} when it fails"
    return f"apt-get install --reinstall {names}, or dpkg --remove --force-remove-reinstreq {names}"
