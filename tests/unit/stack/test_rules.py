"""Every compatibility rule, on both sides of its limit."""

from __future__ import annotations

import pytest

from ironlease.stack import rules
from ironlease.stack.catalog import load_catalog
from ironlease.stack.rules import Machine

OLD_CUDA = {"python.cuda": "12.6", "nvidia.cuda": "12.6"}
CUDA_13 = {
    "python.cuda": "13.0",
    "nvidia.cuda": "13.0",
    "python.compute_capabilities": ["7.0", "7.5", "8.0", "9.0", "10.0", "12.0"],
}
PROPRIETARY = {"nvidia.driver.kernel_module": "proprietary"}


def driver(version: str) -> dict[str, str]:
    return {"nvidia.driver.version": version, "nvidia.fabric_manager.version": version}


def machine(*names: str, loaded: str | None = None, flavour: str | None = None) -> Machine:
    by_name = {gpu.name: gpu for gpu in load_catalog().gpus}
    return Machine(gpus=tuple(by_name[name] for name in names), driver=loaded, driver_flavour=flavour)


CASES = [
    # The stack by itself.
    pytest.param("driver-for-cuda", {}, machine(), None, id="driver newer than the toolkit's"),
    pytest.param("driver-for-cuda", driver("570.26"), machine(), None, id="the toolkit's own driver"),
    pytest.param("driver-for-cuda", driver("570.25"), machine(), "block", id="one older than the toolkit's"),
    pytest.param("driver-for-cuda", driver("560.28.03") | OLD_CUDA, machine(), None, id="12.6 with its driver"),
    pytest.param("driver-for-cuda", driver("560.28.02") | OLD_CUDA, machine(), "block", id="12.6, one older"),
    pytest.param("driver-for-cuda", driver("580.65.06") | CUDA_13, machine(), None, id="CUDA 13 with its driver"),
    pytest.param("driver-for-cuda", driver("580.65.05") | CUDA_13, machine(), "block", id="CUDA 13, one older"),
    pytest.param("driver-for-cuda", {"python.cuda": "12.9"}, machine(), None, id="the newer of wheel and toolkit"),
    pytest.param(
        "driver-for-cuda", driver("570.26") | {"python.cuda": "12.9"}, machine(), "block", id="wheel newer than toolkit"
    ),
    pytest.param("driver-for-cuda", {"nvidia.cuda": "12.10"}, machine(), "block", id="a CUDA that nobody entered"),
    pytest.param("toolkit-for-wheel", {"nvidia.cuda": "12.9"}, machine(), None, id="same generation"),
    pytest.param("toolkit-for-wheel", {"nvidia.cuda": "13.0"}, machine(), "block", id="another generation"),
    pytest.param("fabric-manager-is-driver", {}, machine(), None, id="equal"),
    pytest.param(
        "fabric-manager-is-driver", {"nvidia.fabric_manager.version": "580.65.06-1"}, machine(), None, id="a revision"
    ),
    pytest.param(
        "fabric-manager-is-driver", {"nvidia.fabric_manager.version": "580.65.07"}, machine(), "block", id="not equal"
    ),
    # The driver that is loaded.
    pytest.param("driver-loaded", {}, machine(), None, id="none loaded"),
    pytest.param("driver-loaded", {}, machine(loaded="570.26"), None, id="runs everything"),
    pytest.param("driver-loaded", {}, machine(loaded="570.25"), "warn", id="no code compiled at run time"),
    pytest.param("driver-loaded", {}, machine(loaded="525.60.13"), "warn", id="oldest of the generation"),
    pytest.param("driver-loaded", {}, machine(loaded="520.61.05"), "block", id="older than the generation"),
    pytest.param("driver-loaded", CUDA_13, machine(loaded="580.65.06"), None, id="CUDA 13 on 580"),
    pytest.param("driver-loaded", CUDA_13, machine(loaded="575.57.08"), "block", id="CUDA 13 on 575"),
    # Wheel and GPU.
    pytest.param("wheel-for-gpu", {}, machine("H100-SXM-80G"), None, id="code for it"),
    pytest.param("wheel-for-gpu", {}, machine("RTX4090-24G"), None, id="8.9 runs code for 8.6"),
    pytest.param("wheel-for-gpu", {}, machine("P100-SXM-16G"), "block", id="older than any"),
    pytest.param(
        "wheel-for-gpu", {"python.compute_capabilities": ["9.0"]}, machine("RTX5090-32G"), "block", id="newer than any"
    ),
    pytest.param(
        "wheel-for-gpu", {"python.compute_capabilities": ["8.6"]}, machine("A100-SXM-80G"), "block", id="newer minor"
    ),
    pytest.param(
        "wheel-for-gpu",
        {"python.compute_capabilities": ["9.0"], "python.ptx": "9.0"},
        machine("RTX5090-32G"),
        None,
        id="older intermediate code",
    ),
    pytest.param(
        "wheel-for-gpu",
        {"python.compute_capabilities": ["9.0"], "python.ptx": "9.0"},
        machine("A100-SXM-80G"),
        "block",
        id="newer intermediate code",
    ),
    # Kernel module and GPU.
    pytest.param("module-flavour", {}, machine("RTX5090-32G"), None, id="Blackwell, open"),
    pytest.param("module-flavour", PROPRIETARY, machine("RTX5090-32G"), "block", id="Blackwell, proprietary"),
    pytest.param("module-flavour", PROPRIETARY, machine("V100-SXM-32G"), None, id="Volta, proprietary"),
    pytest.param("module-flavour", {}, machine("V100-SXM-32G"), "block", id="Volta, open"),
    pytest.param("module-flavour", PROPRIETARY, machine("H100-SXM-80G"), None, id="Hopper, either"),
    pytest.param("module-flavour", {}, machine("V100-SXM-32G", "RTX5090-32G"), "block", id="old and new in one host"),
    pytest.param("loaded-flavour", {}, machine("RTX5090-32G", flavour="open"), None, id="open is loaded"),
    pytest.param("loaded-flavour", {}, machine("RTX5090-32G", flavour="proprietary"), "block", id="wrong one loaded"),
    pytest.param("loaded-flavour", {}, machine("H100-SXM-80G", flavour="proprietary"), None, id="either is loaded"),
    # CUDA and GPU.
    pytest.param("blackwell-needs-cuda-12.8", {}, machine("B200-SXM-180G"), None, id="12.8"),
    pytest.param("blackwell-needs-cuda-12.8", OLD_CUDA, machine("B200-SXM-180G"), "block", id="12.6"),
    pytest.param("blackwell-needs-cuda-12.8", OLD_CUDA, machine("H100-SXM-80G"), None, id="12.6 on Hopper"),
    pytest.param("cuda-13-needs-turing", CUDA_13, machine("T4-16G"), None, id="Turing on 13"),
    pytest.param("cuda-13-needs-turing", CUDA_13, machine("V100-SXM-32G"), "block", id="Volta on 13"),
    pytest.param("cuda-13-needs-turing", {}, machine("V100-SXM-32G"), None, id="Volta on 12"),
]


@pytest.mark.parametrize(("rule", "changes", "host", "severity"), CASES)
def test_rule(make_stack, rule, changes, host, severity):
    found = {finding.code: finding for finding in rules.check(make_stack(changes), host)}

    assert (found[rule].severity if rule in found else None) == severity


def test_each_rule_has_both_sides_in_the_table_a_source_and_its_own_code():
    for rule in rules.RULES:
        severities = {case.values[3] for case in CASES if case.values[0] == rule.id}
        assert None in severities, f"{rule.id} never passes in the table"
        assert "block" in severities, f"{rule.id} never blocks in the table"
        assert rule.source
        assert rule.statement


def test_a_stack_without_gpus_has_nothing_to_say_about_them(make_stack):
    cpu = {
        "accelerator": "cpu",
        "nvidia": ...,
        "python.cuda": None,
        "python.compute_capabilities": [],
        "baseline.backend": "gloo",
    }

    assert rules.check(make_stack(cpu), machine("H100-SXM-80G", loaded="400.1", flavour="proprietary")) == []


def test_the_source_says_which_gpu_is_meant(make_stack):
    (finding,) = rules.check(make_stack(), machine("P100-SXM-16G", "H100-SXM-80G"))[:1]

    assert "Tesla P100 SXM2 16GB" in finding.found
    assert "H100" not in finding.found
