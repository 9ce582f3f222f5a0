"""The values for the roles, each with its reason."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ironlease import stack
from ironlease.inventory import Lease, Tuning
from ironlease.plan.tuning import shm_needed_bytes

GIB = 1 << 30


def decision(plan, key):
    return next(one for one in plan.decisions if one.key == key)


def test_the_roles_get_exactly_these_values(make_plan):
    values = make_plan().values

    assert {role: sorted(variables) for role, variables in values.items()} == {
        "host_preflight": ["findings"],
        "host_base": ["apt_lock_wait_seconds", "packages", "repair_dpkg", "time_sync", "user"],
        "node_tuning": ["limits", "shm_size", "sysctl"],
        "pytorch": ["environment", "index_url", "packages", "python"],
        "node_agent": ["agent", "directory", "settings"],
    }


def test_every_decision_says_why(make_plan):
    for one in make_plan({"kernel_permits.raise_limits": False, "kernel_permits.set_clock": False}).decisions:
        assert one.reason
        assert one.evidence
        assert one.changes_with


def test_versions_and_hashes_are_those_of_the_stack(make_plan):
    loaded = stack.load("torch-cpu")

    pytorch = make_plan().values["pytorch"]

    assert pytorch["environment"] == "/opt/ironlease/envs/torch-cpu"
    assert pytorch["python"] == loaded.distributions[0].python
    assert pytorch["packages"] == [
        {"name": one.name, "version": one.version, "sha256": list(one.sha256)} for one in loaded.python.packages
    ]
    assert pytorch["index_url"] == loaded.python.index_url


@pytest.mark.parametrize(
    ("release", "python", "venv"),
    [("22.04", "/usr/bin/python3.10", "python3.10-venv"), ("24.04", "/usr/bin/python3.12", "python3.12-venv")],
)
def test_interpreter_and_package_names_follow_the_system(make_plan, gpus, release, python, venv):
    plan = make_plan(gpus("2330") | {"os.id": "ubuntu", "os.version_id": release}, stack_name="torch-cu128")

    assert plan.blocking == []
    assert plan.values["pytorch"]["python"] == python
    assert venv in plan.values["host_base"]["packages"]
    assert plan.values["pytorch"]["index_url"] is None


def test_a_mirror_in_the_inventory_replaces_the_stacks_index(make_plan):
    plan = make_plan(index_url="https://mirror.example/simple")

    assert decision(plan, "pytorch.index_url").value == "https://mirror.example/simple"
    assert decision(plan, "pytorch.index_url").source == "inventory"


@pytest.mark.parametrize(
    ("packages", "package", "source"),
    [
        pytest.param({}, "chrony", "default", id="nothing there"),
        pytest.param({"systemd-timesyncd": "252"}, "systemd-timesyncd", "probe", id="timesyncd is there"),
        pytest.param({"systemd-timesyncd": "252", "chrony": "4.3"}, "chrony", "probe", id="both are there"),
        pytest.param({"ntpsec": "1.2"}, "ntpsec", "probe", id="ntpsec is there"),
    ],
)
def test_time_sync_takes_what_is_there(make_plan, packages, package, source):
    chosen = decision(make_plan({"packages": packages}), "host_base.time_sync")

    assert chosen.value == {"package": package, "unit": f"{package}.service", "active": True}
    assert chosen.source == source


def test_nobody_expects_a_clock_that_may_not_be_set_to_be_set(make_plan):
    plan = make_plan({"kernel_permits.set_clock": False})

    assert plan.values["host_base"]["time_sync"]["active"] is False
    assert "lets nobody set the clock" in decision(plan, "host_base.time_sync[active]").skipped
    assert plan.blocking == []


@pytest.mark.parametrize(
    ("changes", "repair"),
    [
        pytest.param({}, False, id="whole"),
        pytest.param({"apt.dpkg_interrupted": True}, True, id="interrupted"),
        pytest.param(
            {"broken_packages": [{"name": "a", "state": "unpacked", "version": "1"}]}, True, id="only unpacked"
        ),
        pytest.param(
            {"broken_packages": [{"name": "a", "state": "half-installed", "version": "1"}]}, False, id="not safe"
        ),
        pytest.param(
            {"broken_packages": [{"name": "linux-image-6", "state": "unpacked", "version": "1"}]}, False, id="a kernel"
        ),
    ],
)
def test_dpkg_is_repaired_only_where_that_is_safe(make_plan, changes, repair):
    assert make_plan(changes).values["host_base"]["repair_dpkg"] is repair


@pytest.mark.parametrize(
    ("permits", "asked", "expected"),
    [
        pytest.param((True, 8388608, 4096), None, ("unlimited", 1048576), id="root may raise"),
        pytest.param((True, 8388608, 4096), 65536, ("unlimited", 65536), id="the inventory asks for less"),
        pytest.param((False, 8388608, 20000), None, (None, 20000), id="root may not: as far as it goes"),
        pytest.param((False, "unlimited", "unlimited"), None, ("unlimited", 1048576), id="root need not"),
        pytest.param((False, 8388608, 2000000), None, (None, 1048576), id="the hard limit is higher"),
    ],
)
def test_limits(make_plan, permits, asked, expected):
    raise_limits, memlock_hard, files_hard = permits
    plan = make_plan(
        {
            "kernel_permits.raise_limits": raise_limits,
            "limits.memlock_bytes": {"soft": 8388608, "hard": memlock_hard},
            "limits.open_files": {"soft": 1024, "hard": files_hard},
        },
        tuning=Tuning(open_files=asked),
    )

    assert plan.values["node_tuning"]["limits"] == {"memlock": expected[0], "nofile": expected[1]}
    assert (decision(plan, "node_tuning.limits[memlock]").skipped is None) == (expected[0] is not None)


def test_kernel_parameters_are_those_that_the_kernel_permits(make_plan):
    plan = make_plan({"kernel_permits.sysctl.vm": False, "kernel_permits.sysctl.kernel": False})

    assert sorted(plan.values["node_tuning"]["sysctl"]) == ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"]
    skipped = decision(plan, "node_tuning.sysctl[vm.max_map_count]")
    assert (skipped.value, skipped.skipped) == (None, "this kernel does not let root set vm.*")


@pytest.mark.parametrize(("nodes", "there"), [(1, False), (2, True)])
def test_numa_balancing_matters_only_with_numa(make_plan, nodes, there):
    plan = make_plan({"cpu.numa_nodes": nodes})

    assert ("kernel.numa_balancing" in plan.values["node_tuning"]["sysctl"]) is there


def test_the_inventory_adds_and_replaces_kernel_parameters(make_plan):
    plan = make_plan(tuning=Tuning(sysctl={"vm.max_map_count": "2000000", "vm.swappiness": "10"}))

    values = plan.values["node_tuning"]["sysctl"]
    assert (values["vm.max_map_count"], values["vm.swappiness"]) == ("2000000", "10")
    assert decision(plan, "node_tuning.sysctl[vm.swappiness]").source == "inventory"


@pytest.mark.parametrize(
    ("has", "asked", "expected_gib"),
    [
        pytest.param((32, 0), None, None, id="larger than needed"),
        pytest.param((0.5, 0), None, 1, id="smaller than needed"),
        pytest.param((1, 0), None, 1, id="exactly as needed stays managed"),
        pytest.param((32, 8), None, 32, id="eight GPUs need 32"),
        pytest.param((33, 8), None, None, id="eight GPUs have more"),
        pytest.param((32, 0), 48, 48, id="the inventory asks for more"),
    ],
)
def test_shared_memory(make_plan, gpus, has, asked, expected_gib):
    size_gib, devices = has
    changes = gpus(*["2330"] * devices) | {"shared_memory.size_bytes": int(size_gib * GIB)}
    plan = make_plan(changes, stack_name="torch-cu128", tuning=Tuning(shm_gib=asked))

    expected = (
        None if expected_gib is None else {"size_bytes": expected_gib * GIB, "options": f"size={expected_gib * GIB}"}
    )
    assert plan.values["node_tuning"]["shm_size"] == expected


@pytest.mark.parametrize(
    ("asked", "gpu_count", "memory_gib", "needed_gib"),
    [(None, 0, 64, 1), (None, 8, 2048, 32), (None, 8, 32, 16), (None, 0, 1, 1), (100, 8, 32, 100)],
)
def test_shared_memory_needed(asked, gpu_count, memory_gib, needed_gib):
    assert shm_needed_bytes(asked, gpu_count, memory_gib * GIB) == needed_gib * GIB


@pytest.mark.parametrize(("user", "source"), [("ironlease", "default"), ("trainer", "inventory")])
def test_the_training_user(make_plan, user, source):
    plan = make_plan(training_user=user)

    assert decision(plan, "host_base.user").value == user
    assert decision(plan, "host_base.user").source == source


def test_the_agent_knows_its_host(make_plan):
    lease = Lease(ends_at=datetime(2027, 1, 1, tzinfo=UTC))

    agent = make_plan(lease=lease).values["node_agent"]

    assert agent == {
        "directory": "/opt/ironlease/node",
        "agent": "ab" * 32,
        "settings": {
            "schema": "ironlease.node/1",
            "host": "node1",
            "stack": "torch-cpu",
            "stack_sha256": stack.load("torch-cpu").sha256,
            "environment": "/opt/ironlease/envs/torch-cpu",
            "user": "ironlease",
            "lease_ends_at": "2027-01-01T00:00:00+00:00",
        },
    }
