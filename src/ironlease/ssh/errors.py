"""How a connection can fail, and what to do then."""

from __future__ import annotations

from ironlease.errors import ExitCode, IronleaseError, UnreachableError


class HostKeyUnknownError(UnreachableError):
    """The host's key was never pinned."""

    code = "host-key-unknown"


class HostKeyChangedError(UnreachableError):
    """The host shows another key than the pinned one."""

    code = "host-key-changed"


class LoginRefusedError(UnreachableError):
    """The host is there, but accepts neither our keys nor the password."""

    code = "login-refused"


class ConnectionLostError(UnreachableError):
    """The connection broke while a command ran: the work is not finished, and running it again goes on."""

    code = "connection-lost"
    exit_code = ExitCode.UNFINISHED


class AnswerLateError(ConnectionLostError):
    """A command on the host did not end in its time."""

    code = "answer-late"


class AnswerTooLongError(UnreachableError):
    """A command on the host printed more than any of ours does."""

    code = "answer-too-long"
    exit_code = ExitCode.UNFINISHED


def is_unreachable(error: IronleaseError) -> bool:
    """Return whether ``error`` may pass by waiting: the host is away, not distrusted and not refusing us."""
    return isinstance(error, UnreachableError) and not isinstance(
        error, HostKeyUnknownError | HostKeyChangedError | LoginRefusedError | AnswerTooLongError
    )
