"""What every operation gets from the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from ironlease.console import Console
from ironlease.ops import inventories
from ironlease.paths import Project
from ironlease.runs import RunFolder


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Context:
    """The surroundings of one command: where things lie, how to talk, what time it is.

    ``command`` is the task's dotted name. ``inventory`` is what ``--inventory`` said; use :meth:`inventory_for`.
    """

    command: str
    console: Console
    project: Project = field(default_factory=Project.here)
    inventory: str | None = None
    json: bool = False
    debug: bool = False
    clock: Callable[[], datetime] = _utc_now

    @cached_property
    def run_folder(self) -> RunFolder:
        """The folder of this run; made when it is first asked for, and then named in the result as ``run_dir``."""
        return RunFolder.create(self.project, self.command)

    @property
    def has_run_folder(self) -> bool:
        """Whether this command has left anything behind yet."""
        return "run_folder" in self.__dict__

    def inventory_for(self, hosts: list[str]) -> Path:
        """Return the inventory that a command for ``hosts`` means.

        Raises UsageError when there is none, or several and no way to tell.
        """
        return inventories.choose(self.project, self.inventory, hosts)
