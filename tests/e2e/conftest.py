"""Runs the real command against real lab hosts, with a lab, state and run folders of the tests' own."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pexpect
import pytest
import yaml

from ironlease.lab.instance import Instance
from ironlease.lab.inventory import read_lab_hosts
from ironlease.lab.keys import LOGIN_KEY
from ironlease.lab.lab import Lab
from ironlease.paths import Project

PROJECT = Project.here()
INVOKE = str(Path(sys.executable).with_name("invoke"))
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
        """Start a command in a process group of its own and return its process; the caller waits for it."""
        return subprocess.Popen(
            [INVOKE, *arguments],
            cwd=PROJECT.root,
            env=self.full_environment(**environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def invoke(self, *arguments: str, limit_seconds: float = COMMAND_SECONDS, **environment: str) -> Ended:
        """Run a command with ``--json`` to its end."""
        with self.running(*arguments, **environment) as command:
            return command.end(limit_seconds)

    @contextlib.contextmanager
    def running(self, *arguments: str, **environment: str) -> Iterator["Running"]:
        """Start a command with ``--json`` that the test meddles with while it runs."""
        process = self.start(*arguments, "--json", **environment)
        try:
            yield Running(process)
        finally:
            process.kill()
            process.wait(timeout=30)

    def on_a_terminal(self, *arguments: str, answers: dict[str, str], limit_seconds: float = COMMAND_SECONDS) -> Ended:
        """Run a command on a pseudo-terminal; each question of ``answers`` must be asked, and gets its answer."""
        child = pexpect.spawn(
            INVOKE,
            list(arguments),
            cwd=str(PROJECT.root),
            env=self.full_environment(),
            encoding="utf-8",
            timeout=limit_seconds,
            dimensions=(50, 300),
        )
        shown = ""
        try:
            for question, answer in answers.items():
                child.expect_exact(question)
                shown += child.before + child.after
                child.sendline(answer)
            child.expect(pexpect.EOF)
            shown += child.before
        finally:
            child.close(force=True)
        return Ended(child.exitstatus, "", shown)

    def provision(self, *hosts: str, flags: tuple[str, ...] = (), **environment: str) -> Ended:
        """Run ``invoke provision`` on lab hosts."""
        return self.invoke("provision", "--host", ",".join(hosts), *flags, **environment)

    def inventory(self, **hosts: dict[str, Any]) -> str:
        """Write an inventory of one's own whose hosts are reached like lab hosts, and vouched for by nobody."""
        proxy = (
            f'"{sys.executable}" -IS "{PROJECT.root}/src/ironlease/lab/connect.py" {self.lab.instance.namespace} %h %p'
        )
        variables = {
            "ansible_user": "root",
            "ironlease_stack": "torch-cpu",
            "ansible_ssh_common_args": f"-o ProxyCommand='{proxy}' -o ProxyUseFdpass=yes",
        }
        path = self.folder / "fleet" / "hosts.yml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts, "vars": variables}}))
        return str(path.parent)

    def with_state_of_its_own(self, folder: Path) -> "Desk":
        """Return another control side beside this one, in front of the same lab: it has met no host yet."""
        home = folder / "home"
        home.mkdir()
        # Nobody's own SSH keys or settings count.
        return replace(self, folder=folder, environment={"HOME": str(home), "SSH_AUTH_SOCK": ""})

    def cut_network(self, host: str) -> None:
        """Pull the host's network cable: no packet comes or goes, and nobody is told."""
        self.inside(host, "ip link set host0 down")

    def mend_network(self, host: str) -> None:
        """Plug it in again."""
        self.inside(host, "ip link set host0 up && ip route add default via 10.77.0.1")

    def inside(self, host: str, script: str, limit_seconds: float = 120) -> str:
        """Run a shell script as root inside a host, without SSH; it must succeed."""
        ended = self.lab.run_inside(host, ["bash", "-euc", script], limit_seconds=limit_seconds)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout.strip()

    def full_environment(self, **environment: str) -> dict[str, str]:
        """Return the environment of a command."""
        return {
            **os.environ,
            "IRONLEASE_LAB": self.lab.instance.name,
            "IRONLEASE_STATE_DIR": str(self.state),
            "IRONLEASE_RUNS_DIR": str(self.runs),
            **self.environment,
            **environment,
        }


class Running:
    """A command of ours in the middle of its work; what it prints is collected all the time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._printed: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._readers = [threading.Thread(target=self._read, args=(name,), daemon=True) for name in self._printed]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str) -> None:
        self._printed[name].extend(iter(getattr(self.process, name).readline, ""))

    @property
    def said(self) -> str:
        """What it has said to people so far."""
        return "".join(self._printed["stderr"])

    def wait_until_it_says(self, words: str, limit_seconds: float = 120) -> None:
        """Wait until ``words`` are among what it says to people; fail when it ends before."""
        until(lambda: words in self.said or self.process.poll() is not None, limit_seconds)
        assert words in self.said, f"it never said {words!r}:\n{self.said}"

    def press_ctrl_c(self) -> None:
        """Send what a terminal sends to the foreground process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self, limit_seconds: float = COMMAND_SECONDS) -> Ended:
        """Wait for its end."""
        self.process.wait(limit_seconds)
        for reader in self._readers:
            reader.join(10)
        return Ended(self.process.returncode, "".join(self._printed["stdout"]), self.said)


def until(condition: Callable[[], object], limit_seconds: float = 60) -> None:
    """Wait until ``condition`` is true, or fail."""
    deadline = time.monotonic() + limit_seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.1)


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


PROVISIONED = "provisioned"


@pytest.fixture(scope="session")
def eventually():
    """Wait until a condition is true, or fail."""
    return until


@pytest.fixture(scope="session")
def workshop(tmp_path_factory):
    """A desk for breaking things: its lab can put a provisioned host in place within a second.

    One for all files of tests, because making it costs a whole provisioning; use ``bench`` to get hosts from it.
    """
    session_desk = _desk(tmp_path_factory.mktemp("workshop"), f"faults-{os.getpid()}")
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(session_desk.lab.down)
        ended = session_desk.provision("lab1")
        assert ended.exit_code == 0, ended.stdout + ended.stderr
        session_desk.lab.save_layer("lab1", PROVISIONED)
        yield session_desk


@pytest.fixture
def bench(workshop):
    """The workshop, with a lab1 on it that is provisioned and otherwise fresh."""
    workshop.lab.reset(["lab1"], layer=PROVISIONED)
    return workshop


@pytest.fixture
def acquainted(workshop, tmp_path):
    """Another control side that knows lab1 as well as the workshop does, for inventories of a test's own."""
    desk = workshop.with_state_of_its_own(tmp_path)
    shutil.copytree(workshop.state, desk.state)
    key = Path(desk.environment["HOME"]) / ".ssh" / "id_ed25519"
    key.parent.mkdir(mode=0o700)
    shutil.copy(LOGIN_KEY, key)
    return desk
