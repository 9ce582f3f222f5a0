"""Times that name their offset from UTC; any other time is refused with the user's own value corrected."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from ironlease.schema.model import refuse, shown_value

# Tried in turn to show the user's own value as it should be written.
_OTHER_TIME_FORMATS = ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%d.%m.%Y %H:%M", "%d.%m.%Y")


def aware_time(value: object) -> datetime:
    """Return a time that names its offset from UTC.

    Raises the error that shows the user's own value with an offset; the offset shown is this computer's.
    """
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    if not isinstance(value, str | date):
        raise refuse(shown_value(value), "A time with its offset from UTC.", f'"{_with_offset(datetime.now())}"')  # noqa: DTZ005 - an example in local time
    parsed = value if isinstance(value, date) else _parse_time(value)
    if isinstance(parsed, datetime) and parsed.tzinfo is not None:
        return parsed
    if parsed is None:
        raise refuse(
            f"{shown_value(value)}, which is no time",
            "A time as in ISO 8601, with its offset from UTC.",
            f'"{_with_offset(datetime.now())}"',  # noqa: DTZ005 - an example in local time
        )
    # A bare date means its end: a lease that "ends on the 31st" covers that day.
    naive = parsed if isinstance(parsed, datetime) else datetime(parsed.year, parsed.month, parsed.day, 23, 59)  # noqa: DTZ001 - the missing offset is what the message is about
    raise refuse(
        f"{shown_value(str(value))}, which names no offset from UTC",
        "A time with its offset: host, lessor and this computer may be in three time zones.",
        f'"{_with_offset(naive)}"',
    )


def _parse_time(text: str) -> datetime | date | None:
    try:
        if len(text.strip()) <= len("2026-12-31"):
            return date.fromisoformat(text.strip())
        return datetime.fromisoformat(text.strip())
    except ValueError:
        pass
    for form in _OTHER_TIME_FORMATS:
        try:
            return datetime.strptime(text.strip(), form)  # noqa: DTZ007 - the missing offset is reported
        except ValueError:
            continue
    return None


def _with_offset(naive: datetime) -> str:
    return naive.astimezone().isoformat(timespec="seconds")


AwareTime = Annotated[
    datetime,
    BeforeValidator(aware_time),
    WithJsonSchema(
        {
            "type": "string",
            "format": "date-time",
            "pattern": r"(Z|[+-]\d{2}:?\d{2})$",
            "description": 'A time with its offset, such as "2026-12-31T18:00:00+08:00"',
        }
    ),
]
