"""The playbooks as a team with its own Ansible runs them: plain ansible-playbook, no command of ours."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ironlease.paths import Project

pytestmark = pytest.mark.lab

ROOT = Project.here().root


@pytest.fixture
def ansible_playbook(machine):
    def play(name, *arguments, **environment):
        return subprocess.run(
            [
                str(Path(sys.executable).parent / "ansible-playbook"),
                *("-i", "inventories/lab", f"playbooks/{name}", "--limit", machine.name, *arguments),
            ],
            cwd=ROOT,
            env={**os.environ, "IRONLEASE_LAB": machine.lab.instance.name, "ANSIBLE_NOCOLOR": "1", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )

    return play


def changed(ended):
    return int(re.search(r"changed=(\d+)", ended.stdout).group(1))


def test_the_host_is_probed_provisioned_and_verified(ansible_playbook):
    first = ansible_playbook("provision-node.yml")
    second = ansible_playbook("provision-node.yml")
    verified = ansible_playbook("verify-node.yml")

    assert first.returncode == 0, first.stdout
    assert changed(first) > 0
    assert second.returncode == 0, second.stdout
    assert changed(second) == 0
    assert verified.returncode == 0, verified.stdout
    assert changed(verified) == 0


def test_a_plan_that_was_promised_and_is_not_there_stops_the_host(ansible_playbook, tmp_path):
    ended = ansible_playbook("provision-node.yml", IRONLEASE_PLAN_DIR=str(tmp_path))

    assert ended.returncode == 2
    assert "Found: There is no plan for lab1" in ended.stdout
    assert "Next: invoke provision --host lab1" in ended.stdout
    assert "host_preflight" not in ended.stdout
