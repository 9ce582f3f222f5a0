"""Everything that a plan is made from, and what follows from it at once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from ironlease.inventory import Host
from ironlease.plan.facts import Facts
from ironlease.stack import Stack
from ironlease.stack.catalog import Catalog, Gpu
from ironlease.stack.model import Distribution
from ironlease.stack.rules import Machine
from ironlease_node.places import ENVIRONMENTS, OPT, STATE

NVIDIA_VENDOR = "10de"


@dataclass(frozen=True)
class Case:
    """One host, one stack, one moment."""

    stack: Stack
    facts: Facts
    host: Host
    now: datetime
    agent_sha256: str
    catalog: Catalog

    @cached_property
    def distribution(self) -> Distribution | None:
        """The stack's entry for the host's operating system; None when there is none, or it is not known."""
        id_, release = self.facts.text("os.id"), self.facts.text("os.version_id")
        return None if id_ is None or release is None else self.stack.distribution(id_, release)

    @cached_property
    def packages(self) -> dict[str, Any]:
        """Installed packages by name, with their versions."""
        return self.facts.mapping("packages")

    @cached_property
    def environment(self) -> str:
        """Where the stack's Python environment lies on the host."""
        return f"{ENVIRONMENTS}/{self.stack.name}"

    @cached_property
    def nvidia_ids(self) -> list[str] | None:
        """The PCI device ids of the NVIDIA GPUs; None when the probe does not know. Only GPU stacks need them."""
        accelerators = self.facts.peek("pci.accelerators")
        if self.stack.accelerator == "nvidia":
            accelerators = self.facts.entries("pci.accelerators") if accelerators is None else accelerators
        if accelerators is None:
            return None
        return [str(device.get("device")) for device in accelerators if device.get("vendor") == NVIDIA_VENDOR]

    @cached_property
    def gpus(self) -> list[Gpu]:
        """The GPUs that the catalogue knows."""
        found = [self.catalog.find(device) for device in self.nvidia_ids or []]
        return [gpu for gpu in found if gpu is not None]

    @cached_property
    def machine(self) -> Machine:
        """The host as the compatibility rules judge it."""
        return Machine(
            gpus=tuple(self.gpus),
            driver=self.facts.peek("nvidia_driver.version"),
            driver_flavour=self.facts.peek("nvidia_driver.flavour"),
        )

    @cached_property
    def was_provisioned(self) -> bool:
        """Whether our folder is on the host already."""
        return self.has_trace(OPT)

    @cached_property
    def was_begun(self) -> bool:
        """Whether a provisioning began before: the seller's state is saved before the first change of ours."""
        return self.has_trace(STATE)

    def has_trace(self, path: str) -> bool:
        """Whether the probe saw this thing of ours on the host. What is in it is observed elsewhere, never assumed."""
        return (self.facts.peek("traces") or {}).get(path) is True

    def mount_of(self, path: str) -> dict[str, Any] | None:
        """Return the file system that ``path`` would be written to; None when the probe does not know."""
        mounts = [entry for entry in self.facts.entries("mounts") if _holds(str(entry.get("path")), path)]
        return max(mounts, key=lambda entry: len(str(entry.get("path"))), default=None)


def _holds(mount: str, path: str) -> bool:
    return path == mount or path.startswith(mount.rstrip("/") + "/")
