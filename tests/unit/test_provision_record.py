from __future__ import annotations

from ironlease import provision_record
from ironlease.paths import Project


def test_a_host_of_the_same_name_at_another_address_was_never_provisioned(tmp_path, monkeypatch):
    monkeypatch.setenv("IRONLEASE_STATE_DIR", str(tmp_path / "state"))
    project = Project(tmp_path)
    provision_record.keep(project, "node1", address="203.0.113.1", stack="s", verdict="pass", run_dir="/r")

    assert provision_record.load(project, "node1", "203.0.113.1")["verdict"] == "pass"
    assert provision_record.load(project, "node1", "[203.0.113.1]:2222") is None
