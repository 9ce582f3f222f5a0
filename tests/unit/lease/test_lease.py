"""Time left of a lease; pure functions with a given now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from ironlease import lease as leases
from ironlease.lease import Lease

ENDS_AT = datetime(2026, 12, 31, 10, 0, tzinfo=UTC)


def lease(**values):
    return Lease.model_validate({"ends_at": "2026-12-31T18:00:00+08:00", **values})


@pytest.mark.parametrize(
    ("before_end", "over", "too_short"),
    [
        pytest.param(timedelta(minutes=31), False, False, id="a minute more than needed"),
        pytest.param(timedelta(minutes=30), False, False, id="exactly as much as needed"),
        pytest.param(timedelta(minutes=29, seconds=59), False, True, id="a second too little"),
        pytest.param(timedelta(seconds=1), False, True, id="the last second"),
        pytest.param(timedelta(0), True, False, id="the end itself"),
        pytest.param(timedelta(hours=-1), True, False, id="after the end, within the grace"),
    ],
)
def test_over_and_too_short(before_end, over, too_short):
    # Grace is never counted on.
    rented = lease(grace_hours=24)
    now = ENDS_AT - before_end

    assert leases.is_over(rented, now) is over
    assert leases.is_too_short(rented, now, needed_minutes=30) is too_short
    assert leases.time_left(rented, now) == before_end


@pytest.mark.parametrize(
    ("before_end", "shown"),
    [
        pytest.param(timedelta(days=12, hours=3, minutes=59), "12 d 3 h", id="days"),
        pytest.param(timedelta(hours=3, minutes=20, seconds=59), "3 h 20 min", id="hours, cut"),
        pytest.param(timedelta(minutes=20), "20 min", id="minutes"),
        pytest.param(timedelta(seconds=59), "0 min", id="less than a minute"),
        pytest.param(-timedelta(hours=2, minutes=5), "over since 2 h 5 min", id="over"),
    ],
)
def test_time_left_as_people_read_it(before_end, shown):
    assert leases.shown_time_left(lease(), ENDS_AT - before_end) == shown


def test_a_time_is_shown_local_with_its_offset(monkeypatch):
    import time

    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    try:
        assert leases.shown_time(ENDS_AT) == "2026-12-31 15:30 +05:30"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("starts_at", "waiting"),
    [
        pytest.param(None, False, id="no start given"),
        pytest.param("2026-12-01T00:00:00+00:00", False, id="begins now"),
        pytest.param("2026-12-01T00:00:01+00:00", True, id="a second later"),
    ],
)
def test_not_started(starts_at, waiting):
    assert leases.not_started(lease(starts_at=starts_at), datetime(2026, 12, 1, tzinfo=UTC)) is waiting


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({"starts_at": "2027-01-01T00:00:00+00:00"}, id="starts after its end"),
        pytest.param({"grace_hours": -1}, id="negative grace"),
        pytest.param({"grace_hours": 169}, id="more than a week of grace"),
        pytest.param({"price_cny_month": -1}, id="negative price"),
        pytest.param({"price_usd_month": 1}, id="unknown key"),
    ],
)
def test_a_lease_that_cannot_be_is_refused(values):
    with pytest.raises(ValidationError):
        lease(**values)
