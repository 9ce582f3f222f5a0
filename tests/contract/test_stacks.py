"""The data files are whole, sorted and current: stacks, catalogue, example inventory, and their JSON Schemas."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
import yaml

from ironlease import inventory, schema_files, stack
from ironlease.paths import Project
from ironlease.stack import rules
from ironlease.stack.catalog import load_catalog
from ironlease.stack.model import Stack
from ironlease.stack.rules import Machine

ROOT = Project.here().root
STACKS = stack.names()


@pytest.mark.parametrize("name", STACKS)
def test_stack_is_valid_and_breaks_no_rule(name):
    loaded = stack.load(name)

    assert loaded.tested or loaded.not_tested, "say what was tested, or that nothing was"
    assert [finding.found for finding in rules.check(loaded, Machine())] == []


@pytest.mark.parametrize("name", STACKS)
def test_each_pin_names_its_wheels_for_each_interpreter(name):
    text = (ROOT / "stacks" / f"{name}.yml").read_text(encoding="utf-8")
    loaded = stack.load(name)
    wheels = dict(re.findall(r"- ([0-9a-f]{64}) # (\S+\.whl)$", text, re.MULTILINE))

    for package in loaded.python.packages:
        names = [wheels[sha256] for sha256 in package.sha256]
        assert all(wheel.split("-")[0].replace("_", "-").lower() == package.name for wheel in names)
        assert all(wheel.split("-")[1].replace("%2B", "+") == package.version for wheel in names)
        for entry in loaded.distributions:
            assert any(_fits(wheel, entry.python_version) for wheel in names), f"{package.name}: {entry.python}"


def _fits(wheel: str, python_version: str) -> bool:
    own = "cp" + python_version.replace(".", "")
    return any(tag in (own, "py3", "py2.py3") for tag in wheel.split("-")[-3].split(".")) or "-abi3-" in wheel


@pytest.mark.parametrize("name", STACKS)
def test_a_version_is_written_once(name):
    document = yaml.safe_load((ROOT / "stacks" / f"{name}.yml").read_text(encoding="utf-8"))
    nvidia = document.get("nvidia")
    if nvidia is None:
        return
    pinned = [package["name"] for package in nvidia["driver"]["packages"]]

    assert f"nvidia-driver-pinning-{nvidia['driver']['version']}" in pinned
    assert f"cuda-toolkit-{nvidia['cuda'].replace('.', '-')}" in [one["name"] for one in nvidia["toolkit"]["packages"]]
    for part in ("fabric_manager", "nccl"):
        for package in nvidia[part]["packages"]:
            assert package["version"].partition("-")[0] == nvidia[part]["version"].partition("-")[0]


def test_the_gpu_stack_fits_what_lessors_rent_out():
    gpus = {gpu.name: gpu for gpu in load_catalog().gpus}
    cuda = stack.load("torch-cu128")

    for name in ("A100-SXM-80G", "H100-SXM-80G", "H20-SXM-96G", "RTX4090-24G", "RTX5090-32G", "B200-SXM-180G"):
        assert rules.check(cuda, Machine(gpus=(gpus[name],))) == [], name


@pytest.mark.parametrize("name", sorted(schema_files.documents()))
def test_the_committed_schema_is_current(name):
    committed = (ROOT / "schemas" / name).read_text(encoding="utf-8")

    assert committed == schema_files.text(schema_files.documents()[name]), "run: python -m ironlease.schema_files"


@pytest.mark.parametrize(
    ("file", "schema"),
    [
        *((f"stacks/{name}.yml", "stack.schema.json") for name in STACKS),
        ("inventories/example/hosts.yml", "inventory.schema.json"),
    ],
)
def test_what_we_ship_satisfies_the_schema_that_its_first_line_names(file, schema):
    path = ROOT / file
    first = path.read_text(encoding="utf-8").splitlines()[0]
    named = (path.parent / first.partition("$schema=")[2]).resolve()

    assert named == ROOT / "schemas" / schema
    validator = jsonschema.Draft202012Validator(json.loads(named.read_text(encoding="utf-8")))
    assert list(validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    ("variables", "fits"),
    [
        pytest.param({"ironlease_stack": "torch-cpu", "ansible_host": "x", "own": 1}, True, id="known and foreign"),
        pytest.param({"ironlease_stak": "torch-cpu"}, False, id="unknown"),
        pytest.param({"ironlease_lease": {"ends_at": "2026-12-31T18:00:00"}}, False, id="naive time"),
        pytest.param({"ironlease_lease": {"ends_at": "2026-12-31T18:00:00+08:00"}}, True, id="time with an offset"),
    ],
)
def test_an_editor_sees_the_same_mistakes_as_we_do(variables, fits):
    validator = jsonschema.Draft202012Validator(schema_files.documents()["inventory.schema.json"])

    assert validator.is_valid({"gpu_nodes": {"hosts": {"node1": variables}}}) is fits


def test_the_example_inventory_loads_without_a_warning():
    example = inventory.load(ROOT / "inventories" / "example")

    assert example.warnings == []
    assert {host.stack for host in example.hosts} <= set(STACKS)
    assert all(host.address.startswith("203.0.113.") for host in example.hosts)


def test_every_variable_is_documented():
    page = (ROOT / "docs" / "reference" / "inventory.md").read_text(encoding="utf-8")

    for field in inventory.model.HostVariables.model_fields.values():
        assert f"`{field.alias}`" in page


def test_every_rule_is_documented():
    page = (ROOT / "docs" / "reference" / "stacks.md").read_text(encoding="utf-8")

    for rule in rules.RULES:
        assert f"`{rule.id}`" in page


def test_every_key_of_a_stack_is_documented():
    page = (ROOT / "docs" / "reference" / "stacks.md").read_text(encoding="utf-8")

    for name, field in Stack.model_fields.items():
        assert f"`{field.alias or name}`" in page
