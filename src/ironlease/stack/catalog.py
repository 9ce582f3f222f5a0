"""The catalogue of GPUs: what a PCI device id stands for, known before any driver is installed."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ironlease.paths import Project
from ironlease.schema import Items, Model, load_yaml, refuse

PciId = Annotated[str, Field(pattern=r"^[0-9a-f]{4}$")]
ComputeCapability = Annotated[str, Field(pattern=r"^\d{1,2}\.\d$")]
Architecture = Literal["pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell"]


class Gpu(Model):
    """One product of NVIDIA's."""

    pci: PciId
    name: str
    title: str
    architecture: Architecture
    compute_capability: ComputeCapability
    memory_gb: int | None
    kernel_module: Literal["open", "proprietary", "either"]
    nvswitch: bool
    sources: Annotated[Items[str], Field(min_length=1)]


class NvSwitch(Model):
    """One kind of NVSwitch bridge."""

    pci: PciId
    title: str
    sources: Annotated[Items[str], Field(min_length=1)]


class Catalog(Model):
    """All GPUs that the compatibility rules can judge."""

    sources: dict[str, str]
    nvswitches: Items[NvSwitch]
    gpus: Items[Gpu]

    @model_validator(mode="after")
    def _is_sorted_unique_and_sourced(self) -> Self:
        ids = [gpu.pci for gpu in self.gpus]
        if ids != sorted(set(ids)):
            raise refuse("not sorted by PCI id, or an id is there twice", "GPUs sorted by PCI id, each once.")
        if len({gpu.name for gpu in self.gpus}) != len(ids):
            raise refuse("one name for two GPUs", "A name of its own for each GPU.")
        named = {source for gpu in self.gpus for source in gpu.sources}
        named |= {source for switch in self.nvswitches for source in switch.sources}
        if unknown := sorted(named - set(self.sources)):
            raise refuse(f"naming the source {unknown[0]}, which is not listed", "Sources listed under `sources`.")
        return self

    def find(self, pci: str) -> Gpu | None:
        """Return the GPU with this PCI device id, or None when the catalogue does not know it."""
        return next((gpu for gpu in self.gpus if gpu.pci == pci), None)

    def names(self) -> list[str]:
        """Return the names that an inventory may promise under ``ironlease_expect.gpu``."""
        return [gpu.name for gpu in self.gpus]


@lru_cache(maxsize=1)
def load_catalog() -> Catalog:
    """Return the catalogue of this checkout, read once.

    Raises UsageError when the file was edited into something invalid.
    """
    return load_yaml(Project.here().root / "catalog" / "gpus.yml", Catalog)
