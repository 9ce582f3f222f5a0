"""Runs the real command against real lab hosts, with a lab, state and run folders of the tests' own."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ironlease.lab.instance import Instance
from ironlease.lab.inventory import read_lab_hosts
from ironlease.lab.lab import Lab
from ironlease.paths import Project

PROJECT = Project.here()
# What one command may take at most on the slowest machine that the suite is meant for.
COMMAND_SECONDS = 600


@dataclass(frozen=True)
class Ended:
    """A command of ours that ended."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object that it printed."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document

    def host(self, name: str) -> dict[str, Any]:
        """The entry of one host."""
        entry = self.json["hosts"][name]
        assert isinstance(entry, dict)
        return entry

    def codes(self) -> list[str]:
        """The codes of all errors."""
        return [error["code"] for error in self.json.get("errors", [])]


@dataclass
class Desk:
    """The control side of these tests: where its files lie, and the commands that are typed there."""

    folder: Path
    lab: Lab
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> Path:
        """The state folder."""
        return self.folder / "state"

    @property
    def runs(self) -> Path:
        """The folder of the run folders."""
        return self.folder / "runs"

    @property
    def project(self) -> Project:
        """The project with these folders."""
        return PROJECT

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a command and return its process; the caller waits for it."""
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("invoke")), *arguments],
            cwd=PROJECT.root,
            env={**os.environ, **self._own_environment(), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def invoke(self, *arguments: str, limit_seconds: float = COMMAND_SECONDS, **environment: str) -> Ended:
        """Run a command with ``--json`` to its end."""
        process = self.start(*arguments, "--json", **environment)
        try:
            stdout, stderr = process.communicate(timeout=limit_seconds)
        finally:
            process.kill()
        return Ended(process.returncode, stdout, stderr)

    def provision(self, *hosts: str, flags: tuple[str, ...] = (), **environment: str) -> Ended:
        """Run ``invoke provision`` on lab hosts."""
        return self.invoke("provision", "--host", ",".join(hosts), *flags, **environment)

    def inside(self, host: str, script: str, limit_seconds: float = 120) -> str:
        """Run a shell script as root inside a host, without SSH; it must succeed."""
        ended = self.lab.run_inside(host, ["bash", "-euc", script], limit_seconds=limit_seconds)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.strip()

    def _own_environment(self) -> dict[str, str]:
        return {
            "IRONLEASE_LAB": self.lab.instance.name,
            "IRONLEASE_STATE_DIR": str(self.state),
            "IRONLEASE_RUNS_DIR": str(self.runs),
            **self.environment,
        }


def _desk(folder: Path, name: str) -> Desk:
    hosts = read_lab_hosts(PROJECT.inventories / "lab" / "hosts.yml")
    return Desk(folder, Lab(Instance(name), hosts))


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A control side and a lab for one test module; whatever happens, nothing of the lab stays."""
    module_desk = _desk(tmp_path_factory.mktemp("desk"), f"e2e-{os.getpid()}")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(module_desk.lab.down)
        yield module_desk


@pytest.fixture(scope="module")
def provisioned(desk):
    """A desk whose lab1 has been provisioned."""
    ended = desk.provision("lab1")
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    return desk
