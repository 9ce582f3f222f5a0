"""A stack file says everything once, with a hash or a signed origin, or it is refused."""

from __future__ import annotations

import hashlib

import pytest
import yaml

from ironlease import stack
from ironlease.errors import IronleaseError, UsageError
from ironlease.paths import Project


@pytest.fixture
def write(tmp_path, make_document):
    (tmp_path / "stacks").mkdir()

    def write_stack(changes=None, name="bent"):
        path = tmp_path / "stacks" / f"{name}.yml"
        path.write_text(yaml.safe_dump(make_document(changes)), encoding="utf-8")
        return path

    return write_stack


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        pytest.param({"python.packages.0.sha256": []}, "sha256", id="a package without a hash"),
        pytest.param({"python.packages.0.sha256": ["0" * 63]}, "sha256", id="a short hash"),
        pytest.param({"python.packages.0.sha256": ...}, "sha256 is missing", id="no hash at all"),
        pytest.param({"nvidia.repository.key_fingerprint": ...}, "key_fingerprint", id="a repository without a key"),
        pytest.param({"nvidia.repository.key_fingerprint": "A4B469963BF863CC"}, "key_fingerprint", id="a short key id"),
        pytest.param({"nvidia.repository.url": "http://packages.example/"}, "url", id="a repository without TLS"),
        pytest.param({"nvidia.repository.distributions": {}}, "debian-12", id="a system without a repository"),
        pytest.param({"python.index_url": "https://user@mirror.example/"}, "index_url", id="credentials in a URL"),
        pytest.param({"python.requires": ["torch==2.9.0"]}, "torch==2.9.0", id="pins older than what is required"),
        pytest.param({"python.requires": ["torch==2.10.0", "numpy"]}, "numpy", id="required and not pinned"),
        pytest.param({"accelerator": "cpu"}, "accelerator cpu", id="a CPU stack with NVIDIA parts"),
        pytest.param({"nvidia": ...}, "accelerator nvidia", id="a GPU stack without"),
        pytest.param({"python.cuda": ...}, "python.cuda", id="a GPU stack with a CPU wheel"),
        pytest.param({"distributions": []}, "distributions", id="no system"),
        pytest.param({"baseline.processes": 1}, "processes", id="a baseline with one process"),
        pytest.param({"name": "other"}, "the name other", id="another name than the file's"),
        pytest.param({"nvidia.fabric_manager.version": "580.65.07"}, "fabric manager", id="a broken rule"),
    ],
)
def test_a_stack_is_refused(write, changes, found):
    path = write(changes)

    with pytest.raises(UsageError) as raised:
        stack.load_file(path)

    assert found in raised.value.found
    assert "bent.yml" in raised.value.found + raised.value.next_step


def test_packages_are_sorted_and_each_is_there_once(write, make_document):
    (torch,) = make_document()["python"]["packages"]

    with pytest.raises(UsageError, match="out of order"):
        stack.load_file(write({"python.packages": [torch, dict(torch)]}))


def test_a_stack_knows_the_hash_of_its_file_and_its_versions(write):
    path = write()

    loaded = stack.load_file(path)

    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert loaded.versions() == {"driver": "580.65.06", "cuda": "12.8", "torch": "2.10.0"}
    assert loaded.distribution("debian", "12").python_version == "3.11"
    assert loaded.distribution("debian", "13") is None


def test_an_unknown_stack_is_answered_with_the_nearest(write, tmp_path):
    write()

    with pytest.raises(UsageError) as raised:
        stack.load("bend", Project(tmp_path))

    assert raised.value.code == "unknown-stack"
    assert "did you mean bent?" in raised.value.needed


def test_all_stacks_are_loaded_by_name(write, tmp_path):
    write()
    write({"name": "again"}, "again")

    assert [one.name for one in stack.load_all(Project(tmp_path))] == ["again", "bent"]


def test_one_broken_stack_breaks_the_list(write, tmp_path):
    write()
    write({"name": "again", "title": 1}, "again")

    with pytest.raises(IronleaseError):
        stack.load_all(Project(tmp_path))
