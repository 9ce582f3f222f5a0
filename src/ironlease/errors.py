"""The one way in which ironlease says no: what was found, what is needed, what to do next.

Exit codes are part of the command line's contract; docs/reference/exit-codes.md lists them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any


class ExitCode(IntEnum):
    """Exit codes of every task."""

    OK = 0
    FAIL = 1
    USAGE = 2
    UNREACHABLE = 3
    UNFINISHED = 4
    UNKNOWN = 5
    CRASH = 70


# Over several hosts the first of these that occurred is the exit code of the whole command.
PRECEDENCE = (
    ExitCode.CRASH,
    ExitCode.USAGE,
    ExitCode.UNREACHABLE,
    ExitCode.UNFINISHED,
    ExitCode.FAIL,
    ExitCode.UNKNOWN,
    ExitCode.OK,
)


def worst(codes: list[ExitCode]) -> ExitCode:
    """Return the exit code that stands for all of ``codes``; OK when there are none."""
    return min(codes, key=PRECEDENCE.index, default=ExitCode.OK)


class IronleaseError(Exception):
    """An expected refusal or failure, in three parts.

    ``code`` is a stable word for programs (``--json``) and for the documentation; it defaults to the class's.
    """

    code = "error"
    exit_code = ExitCode.USAGE

    def __init__(
        self,
        *,
        found: str,
        needed: str,
        next_step: str,
        code: str | None = None,
        exit_code: ExitCode | None = None,
        host: str | None = None,
    ) -> None:
        super().__init__(found)
        self.found = found
        self.needed = needed
        self.next_step = next_step
        self.host = host
        self.code = code or type(self).code
        self.exit_code = type(self).exit_code if exit_code is None else exit_code

    def as_dict(self) -> dict[str, Any]:
        """Return the error as the object that ``--json`` prints."""
        return {
            "code": self.code,
            "exit_code": int(self.exit_code),
            "host": self.host,
            "found": self.found,
            "needed": self.needed,
            "next": self.next_step,
        }


class UsageError(IronleaseError):
    """The command line or a file of the user's is wrong; nothing was changed."""

    code = "usage"
    exit_code = ExitCode.USAGE


class UnreachableError(IronleaseError):
    """A host could not be reached or not be trusted."""

    code = "unreachable"
    exit_code = ExitCode.UNREACHABLE


class UnfinishedError(IronleaseError):
    """The work stopped before its end; running the command again goes on."""

    code = "unfinished"
    exit_code = ExitCode.UNFINISHED


class CombinedError(IronleaseError):
    """Several refusals at once: gates run all their checks, then fail with the whole list."""

    code = "several"

    def __init__(self, errors: list[IronleaseError]) -> None:
        first = errors[0]
        super().__init__(
            found="; ".join(error.found for error in errors),
            needed="; ".join(error.needed for error in errors),
            next_step=first.next_step,
            exit_code=worst([error.exit_code for error in errors]),
            host=first.host,
        )
        self.errors = errors


def raise_all(errors: list[IronleaseError]) -> None:
    """Raise the one error, or all of them as an :class:`CombinedError`; do nothing when there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise CombinedError(errors)
