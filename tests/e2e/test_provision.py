"""The main job: a bare machine becomes one that is proved to train, and the same command again changes nothing."""

import json

import pytest

pytestmark = pytest.mark.lab


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
    second = provisioned.provision("lab1")

    host = second.host("lab1")
    assert second.exit_code == 0
    assert (host["changed"], host["observed"], host["verdict"]) == (0, True, "pass")
    assert host["proof"]["fresh"] is False
