"""What a lease says about time: how much is left, and whether it is enough.

Pure functions: they take ``now``. The lessor's grace hours are shown but never counted on.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Self

from pydantic import Field, model_validator

from ironlease.schema import AwareTime, Model, refuse

# A week of goodwill is the most that lessors are known to give; more is a typing mistake.
_MAX_GRACE_HOURS = 168


class Lease(Model):
    """Start, end, grace and price of a rented machine."""

    ends_at: AwareTime
    starts_at: AwareTime | None = None
    grace_hours: Annotated[float, Field(ge=0, le=_MAX_GRACE_HOURS)] = Field(
        default=0, description="Hours the lessor may leave the machine running after the end; never counted on"
    )
    provider: str | None = None
    contract: str | None = Field(default=None, description="Number of the contract or order, for reports")
    price_cny_month: Annotated[float, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _ends_after_its_start(self) -> Self:
        if self.starts_at is not None and self.starts_at >= self.ends_at:
            raise refuse(
                f"a lease that starts at {shown_time(self.starts_at)} and ends at {shown_time(self.ends_at)}",
                "An end after the start.",
            )
        return self


def time_left(lease: Lease, now: datetime) -> timedelta:
    """Return the time until the lease's end; negative once it is over. Grace is not counted."""
    return lease.ends_at - now


def is_over(lease: Lease, now: datetime) -> bool:
    """Return whether the lease has ended."""
    return time_left(lease, now) <= timedelta(0)


def is_too_short(lease: Lease, now: datetime, needed_minutes: float) -> bool:
    """Return whether less than ``needed_minutes`` are left of a lease that is not over."""
    return not is_over(lease, now) and time_left(lease, now) < timedelta(minutes=needed_minutes)


def not_started(lease: Lease, now: datetime) -> bool:
    """Return whether the lease begins only later."""
    return lease.starts_at is not None and now < lease.starts_at


def shown_time(moment: datetime) -> str:
    """Return a time as people read it: this computer's local time with its offset."""
    local = moment.astimezone()
    offset = local.strftime("%z")
    return f"{local:%Y-%m-%d %H:%M} {offset[:3]}:{offset[3:5]}"


def shown_time_left(lease: Lease, now: datetime) -> str:
    """Return ``"12 d 3 h"``, ``"3 h 20 min"``, ``"20 min"`` or ``"over since 2 h 5 min"``."""
    left = time_left(lease, now)
    if left <= timedelta(0):
        return f"over since {shown_duration(-left)}"
    return shown_duration(left)


def shown_duration(duration: timedelta) -> str:
    """Return a positive duration in its two largest units, cut rather than rounded up."""
    minutes = int(duration.total_seconds() // 60)
    days, hours = divmod(minutes // 60, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min"
