"""A finding: something about a host or a file that people must know, in three parts, with how much it matters."""

from __future__ import annotations

from typing import Literal

from ironlease.errors import ExitCode, IronleaseError
from ironlease.schema import Model

Severity = Literal["block", "warn", "note"]


class Finding(Model):
    """What was found, what is needed and what to do next.

    ``block`` stops provisioning with ``exit_code``; ``warn`` and ``note`` are shown and stop nothing.
    """

    code: str
    severity: Severity
    found: str
    needed: str
    next_step: str
    exit_code: int = int(ExitCode.USAGE)

    def as_error(self, host: str | None = None) -> IronleaseError:
        """Return the finding as the error that a command ends with."""
        return IronleaseError(
            code=self.code,
            found=self.found,
            needed=self.needed,
            next_step=self.next_step,
            exit_code=ExitCode(self.exit_code),
            host=host,
        )
