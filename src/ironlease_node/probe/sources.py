"""What every part of the probe reads from."""

from __future__ import annotations

from typing import NamedTuple

from ironlease_node.dpkg import Database
from ironlease_node.host import Host, Problems, Unreadable
from ironlease_node.tools import OK, Outcome


class Sources(NamedTuple):
    """The host's files, what the tools answered, and where a part notes what it cannot know."""

    host: Host
    outcomes: dict[str, Outcome]
    problems: Problems
    # None when dpkg's status file cannot be read; `packages_problem` then says why.
    packages: Database | None
    packages_problem: str

    def answer_of(self, name: str) -> str:
        """Return what a tool printed.

        Raises Unreadable when the tool is not installed, failed or ran out of time.
        """
        outcome = self.outcomes[name]
        if outcome.status != OK:
            raise Unreadable(outcome.reason)
        return outcome.stdout

    def database(self) -> Database:
        """Return dpkg's records.

        Raises Unreadable.
        """
        if self.packages is None:
            raise Unreadable(self.packages_problem)
        return self.packages
