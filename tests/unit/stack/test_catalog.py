"""The catalogue of GPUs is whole, and its mistakes are caught."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from ironlease.stack.catalog import Catalog, load_catalog

GPU = {
    "pci": "2330",
    "name": "A",
    "title": "A",
    "architecture": "hopper",
    "compute_capability": "9.0",
    "memory_gb": 80,
    "kernel_module": "either",
    "nvswitch": True,
    "sources": ["s"],
}


def catalog(*gpus):
    return Catalog.model_validate({"sources": {"s": "somewhere"}, "nvswitches": [], "gpus": gpus})


@pytest.mark.parametrize(
    ("pci", "name", "capability"),
    [
        ("20b2", "A100-SXM-80G", "8.0"),
        ("2330", "H100-SXM-80G", "9.0"),
        ("2329", "H20-SXM-96G", "9.0"),
        ("2684", "RTX4090-24G", "8.9"),
        ("2b85", "RTX5090-32G", "12.0"),
        ("2901", "B200-SXM-180G", "10.0"),
    ],
)
def test_what_lessors_rent_out_is_known(pci, name, capability):
    gpu = load_catalog().find(pci)

    assert (gpu.name, gpu.compute_capability) == (name, capability)


def test_an_unknown_id_is_none():
    assert load_catalog().find("ffff") is None


@pytest.mark.parametrize(
    ("architecture", "flavour"),
    [("volta", "proprietary"), ("turing", "either"), ("hopper", "either"), ("blackwell", "open")],
)
def test_the_kernel_module_follows_the_architecture(architecture, flavour):
    assert {gpu.kernel_module for gpu in load_catalog().gpus if gpu.architecture == architecture} == {flavour}


@pytest.mark.parametrize(
    "gpus",
    [
        pytest.param([GPU, GPU], id="twice"),
        pytest.param([GPU, GPU | {"pci": "2329", "name": "B"}], id="not sorted"),
        pytest.param([GPU, GPU | {"pci": "2331"}], id="one name for two"),
        pytest.param([GPU | {"sources": ["t"]}], id="a source that is not listed"),
        pytest.param([GPU | {"sources": []}], id="no source"),
        pytest.param([GPU | {"pci": "10de:2330"}], id="no PCI device id"),
    ],
)
def test_a_mistake_in_the_catalogue_is_refused(gpus):
    with pytest.raises(ValidationError):
        catalog(*gpus)
