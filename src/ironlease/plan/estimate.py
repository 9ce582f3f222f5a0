"""How long provisioning will take, as a sum that can be checked.

Rates and allowances are orders of magnitude for a machine with two busy cores and a 200 Mbit/s line; a leased server is
faster. `invoke bench.provision` measures the real thing.
"""

from __future__ import annotations

from ironlease.plan.case import Case
from ironlease.plan.model import Change, Estimate, EstimatePart

CONNECT_MINUTES = 0.2
ROLES_MINUTES = 0.3
APT_UPDATE_MINUTES = 0.2
MINUTES_PER_PACKAGE = 0.05
DOWNLOAD_BYTES_PER_MINUTE = 1_500_000_000
UNPACK_BYTES_PER_MINUTE = 3_000_000_000
BASELINE_MINUTES = 0.5
# What a lease must still hold after provisioning: saving what a first training wrote.
BACKUP_MINUTES = 30


def estimate(case: Case, changes: list[Change]) -> Estimate:
    """Return the expected minutes for ``case`` with these ``changes``."""
    packages = sum(1 for change in changes if change.kind == "package")
    parts = [
        EstimatePart(what="log in, probe, save the seller's state", minutes=CONNECT_MINUTES, arithmetic="an allowance"),
        EstimatePart(what="the roles' own work", minutes=ROLES_MINUTES, arithmetic="an allowance"),
    ]
    if packages:
        parts.append(
            EstimatePart(
                what="packages",
                minutes=_rounded(APT_UPDATE_MINUTES + packages * MINUTES_PER_PACKAGE),
                arithmetic=f"{APT_UPDATE_MINUTES} for the lists + {packages} packages x {MINUTES_PER_PACKAGE}",
            )
        )
    if any(change.kind == "environment" and change.state == "new" for change in changes):
        parts.append(_environment(case))
    parts.append(
        EstimatePart(
            what="baseline training", minutes=BASELINE_MINUTES, arithmetic="an allowance for two processes on two cores"
        )
    )
    return Estimate(total=_rounded(sum(part.minutes for part in parts)), parts=tuple(parts))


def _environment(case: Case) -> EstimatePart:
    packages = case.stack.python.packages
    download = sum(package.download_bytes for package in packages)
    unpack = sum(package.installed_bytes for package in packages)
    return EstimatePart(
        what="Python environment",
        minutes=_rounded(download / DOWNLOAD_BYTES_PER_MINUTE + unpack / UNPACK_BYTES_PER_MINUTE),
        arithmetic=(
            f"{download / 1e9:.2f} GB at {DOWNLOAD_BYTES_PER_MINUTE / 1e9:g} GB/min + "
            f"{unpack / 1e9:.2f} GB unpacked at {UNPACK_BYTES_PER_MINUTE / 1e9:g} GB/min"
        ),
    )


def _rounded(minutes: float) -> float:
    return round(minutes, 1)
