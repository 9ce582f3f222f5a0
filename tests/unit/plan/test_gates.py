"""What stands in the way: each gate on both sides of its limit."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ironlease.errors import ExitCode, IronleaseError
from ironlease.inventory import Lease
from ironlease.plan import estimate
from ironlease.plan.facts import ProbeForeignError

GIB = 1 << 30
H100 = ("2330",) * 8


def codes(plan):
    return {finding.code: finding.severity for finding in plan.findings}


def broken(name, state):
    return {"broken_packages": [{"name": name, "state": state, "version": "1"}], "apt.dpkg_interrupted": True}


def test_a_bare_supported_host_has_no_finding(make_plan):
    plan = make_plan()

    assert plan.findings == ()
    assert plan.values["host_preflight"]["findings"] == []


@pytest.mark.parametrize(
    ("changes", "code", "severity"),
    [
        pytest.param({"os.version_id": "13"}, "distribution-unsupported", "block", id="release"),
        pytest.param({"os.id": "rocky", "os.version_id": "9.4"}, "distribution-unsupported", "block", id="system"),
        pytest.param({"os.architecture": "aarch64"}, "architecture-unsupported", "block", id="architecture"),
        pytest.param({"user.sudo": "none"}, "no-sudo", "block", id="no sudo"),
        pytest.param({"user.sudo": "unknown"}, "sudo-unknown", "block", id="sudo does not answer"),
        pytest.param({"simulated": "h100-8"}, "simulated", "note", id="simulated"),
        pytest.param(
            {"apt.locks": [{"path": "/var/lib/dpkg/lock", "pid": 7, "command": "unattended-upgrade"}]},
            "apt-lock-held",
            "note",
            id="apt is busy",
        ),
        pytest.param(broken("curl", "half-configured"), "dpkg-unfinished", "warn", id="dpkg can go on"),
        pytest.param({"apt.dpkg_interrupted": True}, "dpkg-unfinished", "warn", id="dpkg has an open transaction"),
        pytest.param(
            {"apt.dpkg_interrupted": True, "traces./var/lib/ironlease": True},
            "dpkg-unfinished",
            "note",
            id="dpkg was cut off in a run of ours",
        ),
        pytest.param(broken("curl", "half-installed"), "dpkg-broken", "block", id="dpkg cannot go on"),
        pytest.param(broken("curl", "reinst-required"), "dpkg-broken", "block", id="a package is in pieces"),
        pytest.param(broken("nvidia-dkms-580", "half-configured"), "dpkg-broken", "block", id="a driver is half built"),
        pytest.param(
            {"packages": {"python3.11-venv": "3.11.2"}}, "venv-impossible", "block", id="venv is there and fails"
        ),
        pytest.param({"packages": {"nvidia-driver-535": "1"}}, "seller-nvidia-packages", "note", id="seller's driver"),
        pytest.param({"reboot_required.required": True}, "reboot-pending", "note", id="a reboot is pending"),
        pytest.param({"time.utc": "2026-11-30T08:05:01Z"}, "clock-skew", "warn", id="clock fast"),
        pytest.param({"time.utc": "2026-11-30T07:54:59Z"}, "clock-skew", "warn", id="clock slow"),
        pytest.param({"os.id": None}, "probe-incomplete", "block", id="an unknown system"),
        pytest.param({"kernel_permits": ...}, "probe-incomplete", "block", id="a key that is missing"),
        pytest.param({"packages": []}, "probe-incomplete", "block", id="a key of another kind"),
        pytest.param({"memory_bytes": "64"}, "probe-incomplete", "block", id="text for a number"),
    ],
)
def test_finding(make_plan, changes, code, severity):
    plan = make_plan(changes)

    assert codes(plan)[code] == severity
    finding = next(one for one in plan.findings if one.code == code)
    assert finding.found.endswith((".", ":"))
    assert finding.needed.endswith(".")
    assert finding.next_step


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        pytest.param({"user.sudo": "passwordless"}, "no-sudo", id="sudo without a password"),
        pytest.param({"user.sudo": "password"}, "no-sudo", id="sudo with a password"),
        pytest.param({"time.utc": "2026-11-30T08:05:00Z"}, "clock-skew", id="five minutes"),
        pytest.param({"time.utc": None}, "clock-skew", id="the clock is not known, which another gate minds"),
        pytest.param(
            {"pythons": [{"path": "/usr/bin/python3", "version": "3.11.2", "venv": True}]},
            "venv-impossible",
            id="venv works",
        ),
        pytest.param({"packages": {}}, "venv-impossible", id="venv is to be installed"),
        pytest.param({"pythons": []}, "venv-impossible", id="the interpreter is to be installed"),
        pytest.param({"pci": None}, "probe-incomplete", id="no PCI bus, and no need of one"),
    ],
)
def test_no_finding(make_plan, changes, code):
    assert code not in codes(make_plan(changes))


@pytest.mark.parametrize(
    ("free_gib", "provisioned", "expected"),
    [
        pytest.param(2.4, False, None, id="enough"),
        pytest.param(2.0, False, "block", id="too little"),
        pytest.param(2.0, True, "warn", id="too little, perhaps because the environment is there"),
    ],
)
def test_disk(make_plan, free_gib, provisioned, expected):
    plan = make_plan(
        {
            "mounts": [{"path": "/", "read_only": False, "available_bytes": int(free_gib * GIB)}],
            "traces": {"/opt/ironlease": provisioned},
        }
    )

    assert codes(plan).get("disk-full") == expected


def test_the_disk_is_the_one_that_holds_the_environment(make_plan):
    root = {"path": "/", "read_only": False, "available_bytes": GIB}
    opt = {"path": "/opt", "read_only": False, "available_bytes": 90 * GIB}
    other = {"path": "/opt/iron", "read_only": False, "available_bytes": 0}

    assert "disk-full" not in codes(make_plan({"mounts": [root, opt, other]}))
    assert "disk-full" in codes(make_plan({"mounts": [root, other]}))


def test_the_system_needs_room_of_its_own_beside_a_disk_for_environments(make_plan):
    opt = {"path": "/opt", "read_only": False, "available_bytes": 90 * GIB}

    def plan(available_bytes):
        return make_plan({"mounts": [{"path": "/", "read_only": False, "available_bytes": available_bytes}, opt]})

    assert "disk-full" not in codes(plan(GIB))
    (finding,) = [one for one in plan(GIB - 1).findings if one.code == "disk-full"]
    assert finding.found.startswith("/ on node1 has")


@pytest.mark.parametrize(
    ("mount", "code"),
    [
        pytest.param({"read_only": True, "available_bytes": 90 * GIB}, "disk-read-only", id="read-only"),
        pytest.param({"read_only": False, "available_bytes": None}, "probe-incomplete", id="size not known"),
    ],
)
def test_a_disk_that_cannot_be_used(make_plan, mount, code):
    assert codes(make_plan({"mounts": [{"path": "/", **mount}]}))[code] == "block"


@pytest.mark.parametrize(
    ("minutes_left", "expected"),
    [
        pytest.param(-1, "lease-over", id="over"),
        pytest.param(0, "lease-over", id="ends now"),
        pytest.param(31, "lease-too-short", id="no time for a backup"),
        pytest.param(32, None, id="just enough"),
    ],
)
def test_lease(make_plan, now, minutes_left, expected):
    total = make_plan().estimate_minutes.total
    assert 1 < total < 2, "the limits below are for this estimate"

    plan = make_plan(lease=Lease(ends_at=now + timedelta(minutes=minutes_left)))

    assert [finding.code for finding in plan.findings] == ([expected] if expected else [])
    assert estimate.BACKUP_MINUTES == 30


def test_the_grace_of_a_lease_is_not_counted_on(make_plan, now):
    plan = make_plan(lease=Lease(ends_at=now - timedelta(minutes=1), grace_hours=24))

    assert codes(plan) == {"lease-over": "block"}


def test_a_lease_that_begins_later_is_a_warning(make_plan, now):
    lease = Lease(starts_at=now + timedelta(hours=1), ends_at=now + timedelta(days=1))

    assert codes(make_plan(lease=lease)) == {"lease-not-started": "warn"}


@pytest.mark.parametrize(
    ("stack_name", "host", "finding"),
    [
        pytest.param("torch-cu128", (H100, {}), (None, None), id="eight H100"),
        pytest.param("torch-cu128", ((), {}), ("gpu-missing", "block"), id="GPU stack without a GPU"),
        pytest.param("torch-cpu", (H100, {}), ("gpu-unused", "warn"), id="CPU stack with GPUs"),
        pytest.param("torch-cpu", (("ffff",), {}), ("gpu-unused", "warn"), id="CPU stack with GPUs unknown to us"),
        pytest.param("torch-cu128", (("ffff",), {}), ("gpu-unknown", "block"), id="an unknown GPU"),
        pytest.param("torch-cu128", (H100, {"driver": None}), ("driver-missing", "block"), id="no driver"),
        pytest.param("torch-cu128", (H100, {"driver": "535.309.01"}), ("driver-loaded", "warn"), id="an older driver"),
        pytest.param("torch-cu128", (H100, {"driver": "470.82.01"}), ("driver-loaded", "block"), id="too old a driver"),
        pytest.param(
            "torch-cu128", (("2b85",), {"flavour": "proprietary"}), ("loaded-flavour", "block"), id="5090, wrong module"
        ),
        pytest.param("torch-cu128", (("15f8",), {}), ("wheel-for-gpu", "block"), id="a GPU too old for the wheel"),
    ],
)
def test_gpu(make_plan, gpus, stack_name, host, finding):
    devices, loaded = host
    code, severity = finding

    plan = make_plan(gpus(*devices, **loaded), stack_name=stack_name)

    assert codes(plan).get(code) == severity
    if code is None:
        assert plan.findings == ()


@pytest.mark.parametrize("part", ["pci", "nvidia_driver"])
def test_what_a_gpu_stack_must_know_and_does_not(make_plan, gpus, part):
    plan = make_plan(
        gpus(*H100) | {part: None, "problems": [{"part": part, "reason": "hung"}]}, stack_name="torch-cu128"
    )

    finding = next(one for one in plan.findings if one.code == "probe-incomplete")
    assert finding.exit_code == ExitCode.UNKNOWN
    assert "(hung)" in finding.found
    assert not {"gpu-missing", "driver-missing"} & set(codes(plan)), "unknown is not missing"


def test_an_unknown_part_is_named_with_the_probes_own_reason(make_plan):
    plan = make_plan({"shared_memory": None, "problems": [{"part": "shared_memory", "reason": "statvfs: denied"}]})

    (finding,) = plan.blocking
    assert "shared_memory.size_bytes (statvfs: denied)" in finding.found
    assert finding.exit_code == 5


def test_all_gates_run_and_the_worst_comes_first(make_plan, now):
    plan = make_plan(
        {"os.version_id": "13", "user.sudo": "none", "simulated": "h100-8", "time.utc": "2026-11-30T09:00:00Z"},
        lease=Lease(ends_at=now),
    )

    assert [finding.code for finding in plan.findings] == [
        "distribution-unsupported",
        "no-sudo",
        "lease-over",
        "clock-skew",
        "simulated",
    ]
    assert [one["code"] for one in plan.values["host_preflight"]["findings"]] == [
        "distribution-unsupported",
        "no-sudo",
        "lease-over",
    ]


def test_a_finding_becomes_the_error_of_the_command(make_plan):
    (finding,) = make_plan({"user.sudo": "none"}).blocking

    error = finding.as_error("node1")

    assert isinstance(error, IronleaseError)
    assert (error.code, error.exit_code, error.host) == ("no-sudo", ExitCode.USAGE, "node1")


@pytest.mark.parametrize("schema", ["ironlease.probe/2", None])
def test_a_probe_of_another_version_is_refused(make_plan, schema):
    with pytest.raises(ProbeForeignError, match=r"ironlease\.probe/2|None"):
        make_plan({"schema": schema})
