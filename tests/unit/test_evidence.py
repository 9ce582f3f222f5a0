from __future__ import annotations

import pytest

from ironlease import evidence
from ironlease.paths import Project


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("IRONLEASE_STATE_DIR", str(tmp_path / "state"))
    return Project(tmp_path)


def test_passed_proof_holds_for_its_manifest_and_no_other(project):
    kept = evidence.keep(project, "node1", "aa", {"verdict": "pass"})

    assert evidence.load(project, "node1", "aa") == kept
    assert evidence.load(project, "node1", "bb") is None
    assert evidence.load(project, "node2", "aa") is None


@pytest.mark.parametrize("verdict", ["fail", "unknown"])
def test_what_did_not_pass_is_kept_and_proves_nothing(project, verdict):
    evidence.keep(project, "node1", "aa", {"verdict": verdict})

    assert evidence.path_of(project, "node1").is_file()
    assert evidence.load(project, "node1", "aa") is None


def test_two_manifests_of_which_something_is_unknown_are_not_the_same(project):
    evidence.keep(project, "node1", None, {"verdict": "pass"})

    assert evidence.load(project, "node1", None) is None


def test_damaged_file_proves_nothing(project):
    evidence.keep(project, "node1", "aa", {"verdict": "pass"})
    evidence.path_of(project, "node1").write_text("{")

    assert evidence.load(project, "node1", "aa") is None
