"""Runs one role at a time on a real host of a lab of its own, through the project's own runner."""

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from ironlease import diagnose, runner
from ironlease.lab.instance import Instance
from ironlease.lab.inventory import read_lab_hosts
from ironlease.lab.lab import Lab
from ironlease.paths import Project

# All that the roles may write to; logs, caches and byte code come and go by themselves.
WATCHED = ("/etc", "/home", "/opt", "/usr", "/var/lib/dpkg", "/var/lib/apt/lists", "/srv")
PROJECT = Project.here()


@dataclass(frozen=True)
class Outcome:
    """What a play did: its status word and its events."""

    status: str
    events: list[runner.TaskEvent] = field(repr=False)

    @property
    def changed(self) -> dict[str, list[str]]:
        """Each changed task with the changes that it names."""
        return {
            event.task: [line for result in event.results for line in result.get("changes", [])]
            for event in self.events
            if event.changed
        }

    @property
    def errors(self) -> list[Any]:
        """What the control side makes of the failed tasks."""
        return [error for event in self.events if event.kind == "failed" for error in diagnose.explain(event)]

    @property
    def problems(self) -> list[str]:
        """What failed, in words; empty when the play ran to its end."""
        return [error.found for error in self.errors] or [self.status] * (self.status != "successful")

    def result_of(self, task: str) -> dict[str, Any]:
        """The first result of the finished task with this name."""
        return next(event.results[0] for event in self.events if event.task == task and event.kind in {"ok", "failed"})


@dataclass
class Machine:
    """A lab host and the means to look at it and to break it."""

    lab: Lab
    name: str
    folder: Path
    plays: int = field(default=0)

    def run(self, *argv: str, limit_seconds: float = 60.0) -> str:
        """Run a program as root on the host; it must succeed."""
        ended = self.lab.run_inside(self.name, argv, limit_seconds=limit_seconds)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def shell(self, script: str, limit_seconds: float = 60.0) -> str:
        return self.run("sh", "-euc", script, limit_seconds=limit_seconds)

    def write(self, path: str, content: str) -> None:
        self.run("sh", "-euc", 'mkdir -p "$(dirname "$1")"; printf %s "$2" > "$1"', "-", path, content)

    def state(self) -> set[str]:
        """Every watched file with type, size, mode, owner, target and time of last change."""
        listing = self.run(
            "find", *WATCHED, "-name", "__pycache__", "-prune", "-o", "-type", "s", "-prune", "-o",
            "!", "-type", "d", "-printf", "%p %y %s %m %u:%g %T@ %l\\n",
        )  # fmt: skip
        return set(listing.splitlines())

    def restart(self) -> None:
        """Cut the power and boot again."""
        self.lab.power_cut(self.name)
        self.lab.power_on(self.name)

    def play(self, role: str, variables: dict[str, Any], *, check: bool = False, entry: str = "main") -> Outcome:
        """Run a role, or another entry of it, on the host."""
        self.plays += 1
        path = self.folder / f"{self.plays}-{role}-{entry}.yml"
        import_role = {"name": role, "tasks_from": entry}
        tasks = [{"name": "Run the role", "ansible.builtin.import_role": import_role, "vars": variables}]
        play = {"name": "Test", "hosts": "all", "become": True, "gather_facts": False, "tasks": tasks}
        # JSON is YAML, with every text in quotes.
        path.write_text(json.dumps([play]), encoding="utf-8")
        events: list[runner.TaskEvent] = []
        playbook = runner.Playbook(
            path=path,
            inventory=PROJECT.inventories / "lab",
            hosts=[self.name],
            check=check,
            host_variables={self.name: {"lab_instance": self.lab.instance.name}},
        )
        status = runner.run(PROJECT, playbook, events.append)
        return Outcome(status, [event for event in events if event.kind != "started"])


@pytest.fixture(scope="session")
def lab():
    """A lab of these tests alone; whatever happens, nothing of it stays."""
    hosts = read_lab_hosts(PROJECT.inventories / "lab" / "hosts.yml")
    own = Lab(Instance(f"roles-{os.getpid()}"), hosts)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(own.down)
        own.up(["lab1"])
        yield own


@pytest.fixture(scope="session")
def machine(lab, tmp_path_factory):
    return Machine(lab, "lab1", tmp_path_factory.mktemp("plays"))


@pytest.fixture(scope="session")
def torch_packages():
    """The pins of the lab's own stack."""
    stack = yaml.safe_load((PROJECT.stacks / "torch-cpu.yml").read_text(encoding="utf-8"))
    return [
        {"name": package["name"], "version": package["version"], "sha256": package["sha256"]}
        for package in stack["python"]["packages"]
    ]
