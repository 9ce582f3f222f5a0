from __future__ import annotations

from dataclasses import replace

import pytest

from ironlease import evidence
from ironlease.paths import Project

REQUEST = {"environment": "/opt/ironlease/envs/torch-cpu", "user": "trainer", "processes": 2}
SUBJECT = evidence.Subject("aa", "m1", REQUEST)


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("IRONLEASE_STATE_DIR", str(tmp_path / "state"))
    return Project(tmp_path)


def test_passed_proof_holds_for_its_host(project):
    kept = evidence.keep(project, "node1", SUBJECT, {"verdict": "pass"})

    assert evidence.load(project, "node1", SUBJECT) == kept
    assert evidence.load(project, "node2", SUBJECT) is None


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"manifest_digest": "bb"}, id="another state"),
        pytest.param({"machine": "m2"}, id="another machine under the same name"),
        pytest.param({"request": REQUEST | {"user": "somebody"}}, id="another user"),
        pytest.param({"request": REQUEST | {"processes": 8}}, id="more processes"),
    ],
)
def test_passed_proof_holds_for_nothing_else(project, other):
    evidence.keep(project, "node1", SUBJECT, {"verdict": "pass"})

    assert evidence.load(project, "node1", replace(SUBJECT, **other)) is None


@pytest.mark.parametrize("verdict", ["fail", "unknown"])
def test_what_did_not_pass_is_kept_and_proves_nothing(project, verdict):
    evidence.keep(project, "node1", SUBJECT, {"verdict": verdict})

    assert evidence.path_of(project, "node1").is_file()
    assert evidence.load(project, "node1", SUBJECT) is None


@pytest.mark.parametrize("unknown", ["manifest_digest", "machine"])
def test_what_is_unknown_is_never_the_same(project, unknown):
    subject = replace(SUBJECT, **{unknown: None})
    evidence.keep(project, "node1", subject, {"verdict": "pass"})

    assert evidence.load(project, "node1", subject) is None


def test_damaged_file_proves_nothing(project):
    evidence.keep(project, "node1", SUBJECT, {"verdict": "pass"})
    evidence.path_of(project, "node1").write_text("{")

    assert evidence.load(project, "node1", SUBJECT) is None
