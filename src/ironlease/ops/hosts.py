"""Which hosts a command means, and that lab hosts among them are up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ironlease import inventory as inventories
from ironlease.errors import UsageError
from ironlease.inventory import Host
from ironlease.lab.lab import Lab
from ironlease.ops.context import Context
from ironlease.ops.inventories import LAB
from ironlease.ssh import HostKey


@dataclass
class Chosen:
    """The hosts of one command, from one inventory; ``lab`` is set when it is the lab's."""

    inventory: Path
    hosts: list[Host]
    lab: Lab | None

    @cached_property
    def _lab_key(self) -> HostKey | None:
        return None if self.lab is None else HostKey.parse(self.lab.host_key())

    def vouched_key(self, host: str) -> HostKey | None:
        """Return the host key that is known for certain because we made it, or None."""
        return self._lab_key if self.lab is not None and self.lab.is_lab_host(host) else None


def select(
    context: Context, names: list[str], group: str | None, *, default_all: bool = False, bring_up: bool = True
) -> Chosen:
    """Return the named hosts, or the group's; without either all of them, where ``default_all`` allows that.

    Lab hosts that are down are brought up first. Raises UsageError for unknown names and for no choice.
    """
    path = context.inventory_for(names)
    loaded = inventories.load(path)
    for warning in loaded.warnings:
        context.console.warn(f"{warning.found} {warning.next_step}")
    if not names and group is None and not default_all:
        raise UsageError(
            code="which-host",
            found="No host was named.",
            needed=f"--host or --group; {path} has {', '.join(host.name for host in loaded.hosts)}.",
            next_step=f"invoke {context.command} --host {loaded.hosts[0].name}",
        )
    chosen = loaded.select(names, group) if names or group is not None else loaded.hosts
    is_lab = path == context.project.inventories / LAB
    lab = Lab.here(context.project, progress=context.console.note) if is_lab else None
    if lab is not None and bring_up:
        lab.up([host.name for host in chosen])
    return Chosen(path, chosen, lab)
