"""What an operation answers: for people, for programs, and for the shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ironlease.console import Table, as_typed
from ironlease.errors import CombinedError, ExitCode, IronleaseError, worst

SCHEMA = "ironlease.result/1"
RECORD_NAME = "result.json"


@dataclass
class Result:
    """The outcome of one operation.

    ``data`` holds the operation's own keys of the ``--json`` object. ``lines`` are printed in their order, then the
    ``errors`` (a host that failed while others went on), then ``summary``: the important line, last.
    The exit code is the worst of ``exit_code`` and those of the errors.
    """

    data: dict[str, Any] = field(default_factory=dict)
    lines: Sequence[str | Table] = ()
    summary: str = ""
    errors: list[IronleaseError] = field(default_factory=list)
    exit_code: ExitCode = ExitCode.OK

    def __post_init__(self) -> None:
        self.exit_code = worst([self.exit_code, *(error.exit_code for error in self.errors)])

    @property
    def ok(self) -> bool:
        """Whether all is well, which is the same as exit code 0."""
        return self.exit_code is ExitCode.OK

    @classmethod
    def refused(cls, error: IronleaseError) -> Result:
        """Return the outcome of an operation that raised ``error``; a combined one becomes its parts."""
        return cls(errors=list(error.errors) if isinstance(error, CombinedError) else [error])

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints; ``errors`` is there only when there are any."""
        document = {"ok": self.ok, **self.data}
        if self.errors:
            document["errors"] = [{**error.as_dict(), "next": as_typed(error.next_step)} for error in self.errors]
        return document

    def to_record(self, command: str) -> dict[str, Any]:
        """Return what the run folder keeps: ``ironlease.result/1``, from which :meth:`from_record` makes it again."""
        return {
            "schema": SCHEMA,
            "command": command,
            "exit_code": int(self.exit_code),
            "data": self.data,
            "lines": [line if isinstance(line, str) else line.to_json() for line in self.lines],
            "errors": [error.as_dict() for error in self.errors],
            "summary": self.summary,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Result:
        """Return the result that :meth:`to_record` described."""
        return cls(
            data=record["data"],
            lines=[line if isinstance(line, str) else Table.from_json(line) for line in record["lines"]],
            errors=[_error(entry) for entry in record["errors"]],
            summary=record["summary"],
            exit_code=ExitCode(record["exit_code"]),
        )


def _error(entry: dict[str, Any]) -> IronleaseError:
    return IronleaseError(
        found=entry["found"],
        needed=entry["needed"],
        next_step=entry["next"],
        code=entry["code"],
        exit_code=ExitCode(entry["exit_code"]),
        host=entry["host"],
    )
