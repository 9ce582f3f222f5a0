"""A computer that cannot run the lab says so, with the way out."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from ironlease.errors import UsageError
from ironlease.lab import preconditions
from ironlease.lab.errors import LabUnavailableError, MissingToolsError
from ironlease.lab.instance import Instance
from ironlease.lab.lab import Lab


@pytest.fixture
def root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def without(monkeypatch, *missing):
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: None if tool in missing else f"/usr/bin/{tool}")


def test_another_system(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")

    with pytest.raises(LabUnavailableError) as refused:
        preconditions.check()

    assert refused.value.code == "lab-not-linux"
    assert "invoke init" in refused.value.next_step


def test_another_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(LabUnavailableError) as refused:
        preconditions.check()

    assert refused.value.code == "lab-not-root"
    assert "sudo" in refused.value.next_step


@pytest.mark.usefixtures("root")
def test_a_container_without_a_volume(monkeypatch, tmp_path):
    without(monkeypatch)
    mounts = tmp_path / "mountinfo"
    monkeypatch.setattr(preconditions, "MOUNTS", mounts)
    root_of_a_container = "22 1 0:40 / / rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u\n"
    mounts.write_text(root_of_a_container)

    with pytest.raises(LabUnavailableError) as refused:
        preconditions.check()

    assert refused.value.code == "lab-on-overlay"
    preconditions.check(only_to_end=True)
    mounts.write_text(root_of_a_container + "23 22 254:0 /v /var/lib/ironlease rw shared:1 - ext4 /dev/vda rw\n")
    preconditions.check()


@pytest.mark.usefixtures("root")
def test_missing_tools_name_their_packages(monkeypatch):
    without(monkeypatch, "systemd-nspawn", "ssh", "ssh-keygen")

    with pytest.raises(MissingToolsError) as refused:
        preconditions.check()

    assert refused.value.packages == ["openssh-client", "systemd-container"]
    assert "apt-get install" in refused.value.next_step


@pytest.mark.usefixtures("root")
def test_a_lab_can_be_taken_down_without_the_tools_that_build_it(monkeypatch):
    without(monkeypatch, "mmdebstrap", "systemd-nspawn", "slirp4netns")

    preconditions.check(only_to_end=True)


def test_an_unknown_host_is_refused_with_the_nearest_name_before_anything_else(monkeypatch):
    monkeypatch.setattr(preconditions, "check", lambda **_: pytest.fail("looked at the computer first"))
    lab = Lab(Instance("unit"), {"lab1": "10.77.0.11", "other": "10.77.0.12"})

    for action in (lab.up, lab.down, lab.reset):
        with pytest.raises(UsageError) as refused:
            action(["lab9"])
        assert refused.value.code == "unknown-host"
        assert "lab1" in refused.value.needed


def test_a_user_who_may_not_look_is_told_so(monkeypatch):
    def hidden(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr("ironlease.lab.lab.unified_mount", lambda: Path("/nowhere"))
    monkeypatch.setattr("ironlease.lab.host.read_json", hidden)

    with pytest.raises(LabUnavailableError) as refused:
        Lab(Instance("unit"), {"lab1": "10.77.0.11"}).list()

    assert refused.value.code == "lab-not-root"
