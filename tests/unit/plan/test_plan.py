"""The plan as a whole: deterministic, the same after JSON, with its changes, its estimate and its explanations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ironlease import stack
from ironlease.errors import UsageError
from ironlease.inventory import Host
from ironlease.paths import Project
from ironlease.plan import Plan, changes, explain, resolve
from ironlease_node.places import TRACES

ROOT = Project.here().root


def things(plan, kind):
    return {change.what: change.state for change in plan.changes if change.kind == kind}


def test_the_same_inputs_give_the_same_plan_byte_for_byte(make_plan):
    first, second = make_plan().to_json(), make_plan().to_json()

    assert json.dumps(first) == json.dumps(second)
    assert [one["key"] for one in first["decisions"]] == sorted(one["key"] for one in first["decisions"])


def test_a_plan_is_the_same_after_json(make_plan):
    plan = make_plan({"user.sudo": "none", "kernel_permits.raise_limits": False})

    document = json.loads(json.dumps(plan.to_json()))

    assert document["schema"] == "ironlease.plan/1"
    assert document["values"] == plan.values
    assert Plan.from_json(document) == plan


@pytest.mark.parametrize("document", [{}, {"schema": "ironlease.plan/2"}])
def test_a_plan_of_another_version_is_refused(document):
    with pytest.raises(ValueError, match=r"not ironlease\.plan/1"):
        Plan.from_json(document)


def test_only_what_is_not_there_yet_is_a_new_package(make_plan):
    assert things(make_plan(), "package") == {"chrony": "new", "python3.11": "new", "python3.11-venv": "new"}
    there = {"ca-certificates": "1", "chrony": "1", "python3.11": "1", "python3.11-venv": "1"}
    assert things(make_plan({"packages": there}), "package") == {}


def test_everything_of_ours_is_new_on_a_bare_host(make_plan):
    plan = make_plan({"traces": dict.fromkeys(TRACES, False)})

    assert set(things(plan, "file").values()) == {"new"}
    assert things(plan, "environment") == {"/opt/ironlease/envs/torch-cpu": "new"}


def test_after_an_interrupted_run_only_what_is_missing_is_new(make_plan):
    there = {"/opt/ironlease": True, changes.LIMITS_FILE: True}
    plan = make_plan({"traces": {**dict.fromkeys(TRACES, False), **there}})

    files = things(plan, "file")
    assert files.pop(changes.LIMITS_FILE) == "compare"
    assert set(files.values()) == {"new"}
    assert things(plan, "environment") == {"/opt/ironlease/envs/torch-cpu": "new"}


def test_what_is_there_is_compared(make_plan):
    environment = "/opt/ironlease/envs/torch-cpu"
    plan = make_plan({"traces": {**dict.fromkeys(TRACES, True), environment: True}})

    assert set(things(plan, "file").values()) == {"compare"}
    assert things(plan, "environment") == {environment: "compare"}


def test_nothing_is_listed_that_the_kernel_does_not_permit(make_plan):
    plan = make_plan(
        {
            "kernel_permits.raise_limits": False,
            "kernel_permits.sysctl": {"fs": False, "kernel": False, "net": False, "vm": False},
        }
    )

    assert changes.SERVICE_LIMITS_FILE not in things(plan, "file")
    assert changes.SYSCTL_FILE not in things(plan, "file")
    assert changes.LIMITS_FILE in things(plan, "file")


def test_the_shared_memory_unit_is_listed_where_it_is_needed(make_plan):
    assert changes.SHM_UNIT not in things(make_plan(), "service")
    assert changes.SHM_UNIT in things(make_plan({"shared_memory.size_bytes": 1 << 20}), "service")


@pytest.mark.parametrize("path", [*changes.AGENT_FILES, changes.LIMITS_FILE, changes.SYSCTL_FILE, changes.SHM_FILE])
def test_every_listed_file_is_one_that_a_role_or_its_module_writes(path):
    sources = [*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("plugins/modules/*.py")]

    assert any(path in source.read_text(encoding="utf-8") for source in sources)


def test_no_reboot_in_a_plan_without_a_driver(make_plan):
    plan = make_plan()

    assert (plan.reboots.count, plan.reboots.reasons) == (0, ())


def test_the_estimate_is_the_sum_of_its_parts_and_less_when_all_is_there(make_plan):
    bare = make_plan().estimate_minutes
    again = make_plan({"traces": {"/opt/ironlease/envs/torch-cpu": True}}).estimate_minutes
    cuda = make_plan(stack_name="torch-cu128").estimate_minutes

    assert bare.total == pytest.approx(sum(part.minutes for part in bare.parts))
    assert all(part.arithmetic for part in bare.parts)
    assert again.total < bare.total < cuda.total


def test_a_simulated_host_is_labelled_and_nothing_else_changes(make_plan):
    simulated, real = make_plan({"simulated": "h100-8"}), make_plan()

    assert simulated.simulated == "h100-8"
    assert simulated.values == real.values
    assert simulated.changes == real.changes


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("pytorch.python", ["pytorch.python"], id="a value"),
        pytest.param("node_agent", ["node_agent.agent", "node_agent.directory", "node_agent.settings"], id="a role"),
        pytest.param(
            "node_tuning.limits",
            ["node_tuning.limits", "node_tuning.limits[memlock]", "node_tuning.limits[nofile]"],
            id="a value with its items",
        ),
    ],
)
def test_explain(make_plan, key, expected):
    assert [one.key for one in explain.explain(make_plan(), key)] == expected


def test_explain_all(make_plan):
    plan = make_plan()

    assert explain.explain(plan) == list(plan.decisions)


def test_explain_an_unknown_key(make_plan):
    with pytest.raises(UsageError) as raised:
        explain.explain(make_plan(), "pytorch.pyton")

    assert "did you mean pytorch.python?" in raised.value.needed


def test_explanations_read_as_lines(make_plan):
    plan = make_plan({"kernel_permits.raise_limits": False})
    (memlock,) = explain.explain(plan, "node_tuning.limits[memlock]")
    (packages,) = explain.explain(plan, "pytorch.packages")

    lines = explain.lines(memlock)

    assert lines[0].strip().startswith("node_tuning.limits[memlock] = skipped (this kernel does not let root")
    assert [line.split()[0] for line in lines[1:]] == ["because", "rests", "changes"]
    assert "torch 2.13.0+cpu" in explain.lines(packages)[0]
    assert all("sha256" not in line for line in explain.lines(packages))


def test_the_real_probe_has_every_key_that_the_plan_asks_for(tmp_path):
    # The probe and the plan are written apart; on any machine a part may be unknown, but never without a word.
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    completed = subprocess.run(
        [sys.executable, "-m", "ironlease_node", "probe"],
        capture_output=True,
        check=True,
        timeout=120,
        env=environment,
        cwd=tmp_path,
    )
    probe = json.loads(completed.stdout)

    for name in stack.names():
        plan = resolve(stack.load(name), probe, Host("here", "127.0.0.1"), datetime.now(UTC), agent_sha256="0" * 64)
        unknown = " ".join(finding.found for finding in plan.findings if finding.code == "probe-incomplete")
        assert "the probe gives no reason" not in unknown
        assert "it is " not in unknown


def test_deciding_is_quick_to_import():
    program = "import ironlease.inventory, ironlease.plan, sys; sys.exit('jinja2' in sys.modules)"
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        completed = subprocess.run(
            [sys.executable, "-c", program],
            check=False,
            timeout=60,
            env=os.environ | {"PYTHONPATH": str(Path(ROOT, "src"))},
        )
        seconds.append(time.perf_counter() - started)
        assert completed.returncode == 0

    # 0.2 s on an idle core; the bound leaves room for busy ones and still catches Ansible being pulled in.
    assert min(seconds) < 1.0
