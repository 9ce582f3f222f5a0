"""Where things lie on the control side. No other module builds these paths."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


@dataclass(frozen=True)
class Project:
    """A checkout of ironlease and the folders that it writes to.

    ``IRONLEASE_STATE_DIR`` and ``IRONLEASE_RUNS_DIR`` move the two written folders elsewhere, for a read-only
    checkout and for tests.
    """

    root: Path

    @classmethod
    def here(cls) -> Project:
        """Return the checkout that this code was imported from."""
        return cls(Path(__file__).resolve().parents[2])

    @cached_property
    def state(self) -> Path:
        """What must survive a run: pinned host keys, our SSH keys, per-host records, locks."""
        return Path(os.environ.get("IRONLEASE_STATE_DIR") or self.root / "state")

    @cached_property
    def runs(self) -> Path:
        """One folder for each command that was run."""
        return Path(os.environ.get("IRONLEASE_RUNS_DIR") or self.root / "runs")

    @property
    def known_hosts(self) -> Path:
        """The pinned host keys, for OpenSSH and paramiko alike."""
        return self.state / "known_hosts"

    @property
    def stacks(self) -> Path:
        """The stack files."""
        return self.root / "stacks"

    @property
    def inventories(self) -> Path:
        """The inventories that come with the project or were made by ``invoke init``."""
        return self.root / "inventories"

    def host_state(self, host: str) -> Path:
        """Return the folder of what is remembered about one host."""
        return self.state / "hosts" / host
