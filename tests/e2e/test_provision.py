"""The main job: a bare machine becomes one that is proved to train, and the same command again changes nothing."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

# What provisioning may write to; logs, caches and byte code come and go by themselves.
WATCHED = "/etc /home /opt /root /usr /var/lib/dpkg /var/lib/apt/lists /var/lib/ironlease /srv"


def listing(desk, host):
    """Return every watched file of a host with its type, size, mode, owner and time of last change."""
    return desk.inside(
        host,
        f"find {WATCHED} -name __pycache__ -prune -o -type s -prune -o ! -type d "
        "-printf '%p %y %s %m %u:%g %T@ %l\\n' 2>/dev/null | sort || true",
    )


def test_a_check_changes_nothing_on_a_bare_host_and_says_what_would_change(desk):
    desk.lab.up(["lab2"])
    before = listing(desk, "lab2")

    ended = desk.provision("lab2", flags=("--check",))

    host = ended.host("lab2")
    assert (ended.exit_code, host["failed"]) == (0, 0)
    assert {"package", "file", "environment"} <= {change["kind"] for change in host["changes"]}
    assert "/etc/security/limits.d/90-ironlease.conf" in {change["what"] for change in host["changes"]}
    assert host["undecided"] == ["host_base: the unit chrony.service, until its package is there"]
    assert listing(desk, "lab2") == before
    assert not (desk.state / "hosts/lab2/seller-state").exists()


def test_a_bare_host_trains_after_one_command(provisioned):
    again = provisioned.provision("lab1", flags=("--full",))

    host = again.host("lab1")
    evidence = json.loads((provisioned.state / "hosts/lab1/evidence.json").read_text())
    assert again.exit_code == 0
    assert (host["verdict"], host["changed"], host["failed"]) == ("pass", 0, 0)
    assert host["proof"]["fresh"] is True
    assert host["proof"]["backend"] == "gloo"
    assert evidence["manifest_digest"] == host["proof"]["manifest_digest"]
    assert {check["verdict"] for check in evidence["baseline"]["checks"]} == {"pass"}


def test_a_second_run_changes_nothing_and_runs_no_role(provisioned):
    before = listing(provisioned, "lab1")

    second = provisioned.provision("lab1")

    host = second.host("lab1")
    assert second.exit_code == 0
    assert (host["changed"], host["observed"], host["verdict"]) == (0, True, "pass")
    assert host["proof"]["fresh"] is False
    assert listing(provisioned, "lab1") == before


def test_the_sellers_state_was_saved_on_both_sides_before_the_first_change(provisioned):
    folder = provisioned.state / "hosts/lab1/seller-state"
    snapshot = json.loads((folder / "snapshot.json").read_text())
    archive = folder / f"{snapshot['sha256']}.tar.gz"

    names = subprocess.run(["tar", "-tzf", archive], capture_output=True, text=True, check=True, timeout=60).stdout

    assert "chrony" not in snapshot["document"]["packages"]
    assert "etc/hostname" in names
    assert "shadow" not in names
    assert snapshot["sha256"] in provisioned.inside("lab1", f"sha256sum {snapshot['path']}")


def test_plain_ansible_finds_nothing_to_change_either(provisioned):
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "IRONLEASE_LAB": provisioned.lab.instance.name,
    }
    ended = subprocess.run(
        ["ansible-playbook", "-i", "inventories/lab", "-l", "lab1", "playbooks/provision-node.yml"],
        cwd=provisioned.project.root,
        env={**environment, "HOME": "/root", "LANG": "C.UTF-8", "IRONLEASE_STATE_DIR": str(provisioned.state)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.search(r"lab1 +: ok=\d+ +changed=0 ", ended.stdout)


def test_the_kept_proof_is_void_when_the_host_reports_something_else(provisioned):
    pip = "/opt/ironlease/envs/torch-cpu/bin/pip --disable-pip-version-check --quiet"
    provisioned.inside("lab1", f"{pip} install --no-deps --no-index --find-links /tmp wheel || {pip} install wheel")

    ended = provisioned.provision("lab1")

    host = ended.host("lab1")
    assert (ended.exit_code, host["changed"], host["observed"]) == (0, 0, True)
    assert host["proof"]["fresh"] is True


def test_a_plan_is_explained_down_to_one_value(provisioned):
    ended = provisioned.invoke("explain", "--host", "lab1", "--key", "pytorch.environment")

    (decision,) = ended.json["decisions"]
    assert decision["value"] == "/opt/ironlease/envs/torch-cpu"
    assert decision["reason"]
    assert decision["changes_with"]


def test_the_fleet_is_looked_at_without_starting_anything(provisioned):
    ended = provisioned.invoke("status", "--inventory", "lab")

    assert ended.exit_code == 3
    assert (ended.host("lab1")["reachable"], ended.host("lab1")["last_provision"]["verdict"]) == ("yes", "pass")
    assert ended.host("lab4")["reachable"] == "no: absent"
    assert {host.name: host.state for host in provisioned.lab.list()}["lab4"] == "absent"


def test_a_lab_host_that_is_named_is_brought_up_by_any_task(provisioned):
    ended = provisioned.invoke("status", "--host", "lab3")

    assert ended.exit_code == 0, ended.stderr
    assert (ended.host("lab3")["reachable"], ended.host("lab3")["last_provision"]) == ("yes", None)


def test_everything_needed_later_is_in_the_run_folder(provisioned):
    folder = Path(provisioned.provision("lab1", flags=("--full",)).json["run_dir"])

    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {
        "events.jsonl",
        "hosts/lab1/probe.json",
        "hosts/lab1/plan.json",
        "hosts/lab1/footprint.json",
        "hosts/lab1/observation.json",
        "hosts/lab1/manifest.json",
        "hosts/lab1/evidence.json",
    } <= names
    assert folder.stat().st_mode & 0o777 == 0o700
