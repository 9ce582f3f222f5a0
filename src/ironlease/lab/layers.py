"""Layers: what one host has written, kept as a read-only floor for others.

A test that needs a provisioned host starts from such a layer in a second instead of provisioning again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ironlease.errors import UsageError
from ironlease.files import read_json, write_json
from ironlease.lab.disk import remove_tree
from ironlease.lab.host import Host, Machine
from ironlease.lab.instance import Instance
from ironlease.suggest import did_you_mean


@dataclass(frozen=True)
class Layers:
    """The layers of one instance."""

    instance: Instance

    def folder(self, name: str) -> Path:
        """Return where the files of the layer ``name`` lie."""
        return self._place(name) / "files"

    def names(self) -> list[str]:
        """Return the names of all complete layers."""
        return sorted(path.parent.name for path in (self.instance.data_dir / "layers").glob("*/machine.json"))

    def save(self, host: Host, name: str) -> None:
        """Turn what ``host`` has written into the layer ``name``, and let the host go on above it.

        The host is off. Raises UsageError when the name is taken, and LabError when the host does not exist.
        """
        machine = host.existing_machine()
        if name in self.names():
            raise UsageError(
                code="lab-layer-taken",
                found=f"The layer {name} exists already.",
                needed="A new name; hosts may stand on the old one.",
                next_step="invoke lab.down",
            )
        remove_tree(self._place(name))
        self._place(name).mkdir(parents=True)
        above = replace(machine, layers=[name, *machine.layers])
        # Moved, not copied: a gigabyte of packages takes no time. Should we be killed in between, the host has no
        # record any more and starts fresh.
        host.forget()
        host.upper.rename(self.folder(name))
        write_json(self._place(name) / "machine.json", asdict(above))
        host.continue_on(above)

    def machine_on(self, name: str) -> Machine:
        """Return what a new host on top of the layer ``name`` is made from."""
        try:
            return Machine(**read_json(self._place(name) / "machine.json"))
        except FileNotFoundError as error:
            raise UsageError(
                code="lab-unknown-layer",
                found=f"This lab has no layer {name}.",
                needed=f"A layer that was saved. {did_you_mean(name, self.names())}",
                next_step="invoke lab.up",
            ) from error

    def _place(self, name: str) -> Path:
        return self.instance.data_dir / "layers" / name
