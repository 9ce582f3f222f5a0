"""Runs playbooks; the only module that imports ansible_runner.

ansible-runner writes its environment, its command line and its variables into its private data folder. That folder is
therefore a temporary one that is removed at the end, Ansible gets an allow-listed environment, and what is kept of a
run is the stream of :class:`TaskEvent` that this module hands out.

Ansible runs under ``supervisor.py``, which ends it and all its workers and SSH connections when the run is cancelled,
takes too long, or when this program is killed.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import ansible_runner
import ansible_runner.interface

from ironlease import redact
from ironlease.errors import ExitCode, IronleaseError
from ironlease.paths import Project
from ironlease.ssh import CONNECT_TIMEOUT_SECONDS, SILENCE_SECONDS

# Longer than any provisioning should take (a driver build on a slow machine included); a hung play ends at last.
PLAYBOOK_TIMEOUT_SECONDS = 3 * 3600
MAX_FORKS = 32
# So many that a host did not answer, and its connection is given up.
SIGNS_OF_LIFE = 6
CANCEL_CHECK_SECONDS = 0.1
PIPE_CHECK_SECONDS = 0.02
SUPERVISOR = Path(__file__).with_name("supervisor.py")
# Nothing else of the user's environment reaches Ansible, so that no key or token in it can end up in a file.
ENVIRONMENT_NAMES = (
    "HOME",
    "IRONLEASE_LAB",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "SSH_AUTH_SOCK",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
)

EVENT_KINDS = {
    "runner_on_start": "started",
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}


class PlaybookBrokenError(IronleaseError):
    """Ansible could not even begin: the playbook, a role or the installation is broken."""

    code = "playbook-broken"
    exit_code = ExitCode.CRASH


@dataclass(frozen=True)
class TaskEvent:
    """One step of one host's play.

    ``kind`` is started, ok, failed, unreachable or skipped, and ended (without a task) once Ansible has come to its own
    end. ``arguments`` is the text of the task's arguments as the role has them, known in check mode only, where results
    do not name their target. ``results`` holds the module's result, or one for each item of a loop; a started task has
    none.
    """

    host: str
    kind: str
    role: str | None
    task: str
    module: str
    handler: bool = False
    ignored: bool = False
    arguments: str = ""
    results: tuple[dict[str, Any], ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the task changed (or, in check mode, would change) something."""
        return any(result.get("changed") for result in self.results)


@dataclass(frozen=True)
class Playbook:
    """What to run, where, and how.

    ``host_variables`` are added to the inventory's own; ``become_password`` serves all hosts that need one.
    """

    path: Path
    inventory: Path
    hosts: list[str]
    plan_directory: Path | None = None
    check: bool = False
    host_variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    become_password: str | None = None


def run(
    project: Project,
    playbook: Playbook,
    on_event: Callable[[TaskEvent], None],
    cancelled: Callable[[], bool] = lambda: False,
) -> str:
    """Run the playbook and return ansible-runner's status word (successful, failed, canceled, timeout).

    Events arrive one at a time, in this thread. Raises PlaybookBrokenError when no host was ever tried.
    """
    # ansible-runner logs to the root logger's handlers; its stream is ours to show, not its.
    logging.getLogger("ansible-runner").setLevel(logging.ERROR)
    stream = _EventStream(on_event)
    with _private_folder() as folder:
        runner = ansible_runner.interface.init_runner(
            private_data_dir=str(folder),
            playbook=str(playbook.path),
            inventory=_inventory(folder, playbook),
            limit=",".join(playbook.hosts),
            extravars={"target": "all"},
            cmdline=_command_line(playbook),
            forks=min(len(playbook.hosts), MAX_FORKS),
            settings={"idle_timeout": 0},
            event_handler=stream.receive,
            quiet=True,
        )
        with (
            _become_password_pipe(folder / "become", playbook.become_password) as become_password,
            _Leash(folder / "leash", cancelled) as leash,
        ):
            # What ansible-runner itself added carries its events to us; the rest of our environment goes no further.
            own = {name: value for name, value in runner.config.env.items() if os.environ.get(name) != value}
            runner.config.env = own | _environment(project, folder, playbook, become_password)
            runner.config.command = leash.tied(runner.config.command)
            try:
                runner.run()
            finally:
                _close_control_masters(folder / "cp")
        status = leash.why_cut or str(runner.status)
    if not stream.hosts_seen and not leash.why_cut:
        raise PlaybookBrokenError(
            found=f"Ansible ended ({status}) before it tried a host: {stream.words()}",
            needed="A playbook that Ansible can start.",
            next_step=f"ansible-playbook --syntax-check -i {playbook.inventory} {playbook.path}",
        )
    return status


class _Leash:
    """Keeps a named pipe open for as long as Ansible may run; ``why_cut`` says why it may not any more."""

    def __init__(self, path: Path, cancelled: Callable[[], bool]) -> None:
        self._path = path
        self._cancelled = cancelled
        self._ended = threading.Event()
        self.why_cut: str | None = None

    def tied(self, command: list[str]) -> list[str]:
        """Return ``command`` as it runs under the supervisor."""
        return [sys.executable, "-IS", str(SUPERVISOR), str(self._path), *command]

    def __enter__(self) -> Self:
        os.mkfifo(self._path, 0o600)
        # For reading, too: opening for writing alone would wait for the supervisor.
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watcher.join()

    def _watch(self) -> None:
        deadline = time.monotonic() + PLAYBOOK_TIMEOUT_SECONDS
        while not self._ended.wait(CANCEL_CHECK_SECONDS):
            self.why_cut = "canceled" if self._cancelled() else "timeout" if time.monotonic() > deadline else None
            if self.why_cut:
                os.write(self._descriptor, b"x")
                self._ended.wait()
        os.close(self._descriptor)


class _EventStream:
    """Turns ansible-runner's events into ours."""

    def __init__(self, on_event: Callable[[TaskEvent], None]) -> None:
        self._on_event = on_event
        self._handler_tasks: set[str] = set()
        self._lines: list[str] = []
        self.hosts_seen: set[str] = set()

    def receive(self, event: dict[str, Any]) -> bool:
        """Take one event; tell ansible-runner not to keep it on disk."""
        name = event["event"]
        data = event.get("event_data") or {}
        if event.get("stdout"):
            self._lines.append(event["stdout"])
        if name == "playbook_on_handler_task_start":
            self._handler_tasks.add(data.get("task_uuid", ""))
        if name == "playbook_on_stats":
            for host in data.get("processed") or {}:
                self._on_event(TaskEvent(host, "ended", None, "", ""))
        kind = EVENT_KINDS.get(name)
        if kind is not None:
            self.hosts_seen.add(data["host"])
            self._on_event(self._task_event(kind, data))
        return False

    def _task_event(self, kind: str, data: dict[str, Any]) -> TaskEvent:
        result = redact.scrub_value(data.get("res") or {})
        items = result.get("results")
        is_loop = isinstance(items, list) and bool(items) and all(isinstance(item, dict) for item in items)
        return TaskEvent(
            host=data["host"],
            kind=kind,
            role=data.get("role"),
            task=data.get("task") or "",
            module=data.get("resolved_action") or data.get("task_action") or "",
            handler=data.get("task_uuid") in self._handler_tasks,
            ignored=bool(data.get("ignore_errors")),
            arguments=redact.scrub(data.get("task_args") or ""),
            results=() if kind == "started" else tuple(items) if is_loop else (result,),
        )

    def words(self) -> str:
        """Return the end of what Ansible printed."""
        return redact.scrub(" ".join(" ".join(self._lines).split()))[-800:] or "it printed nothing"


@contextlib.contextmanager
def _private_folder() -> Iterator[Path]:
    # Short and in the system's temporary folder: ssh's control sockets below it may have 108 characters at most.
    folder = Path(tempfile.mkdtemp(prefix="ironlease-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _inventory(folder: Path, playbook: Playbook) -> list[str]:
    """Return the inventory sources: the user's own, and the connection details that only we know."""
    if not playbook.host_variables:
        return [str(playbook.inventory)]
    extra = folder / "connection.json"
    hosts = {name: dict(values) for name, values in playbook.host_variables.items()}
    extra.write_text(json.dumps({"all": {"hosts": hosts}}), encoding="utf-8")
    return [str(playbook.inventory), str(extra)]


def _command_line(playbook: Playbook) -> str:
    return "--check --diff" if playbook.check else "--diff"


@contextlib.contextmanager
def _become_password_pipe(path: Path, password: str | None) -> Iterator[Path | None]:
    """Yield a path from which Ansible can read the password once, although it is in no file, variable or argument."""
    if password is None:
        yield None
        return
    os.mkfifo(path, 0o600)
    over = threading.Event()
    writer = threading.Thread(target=_write_once, args=(path, password.encode() + b"\n", over))
    writer.start()
    try:
        yield path
    finally:
        over.set()
        writer.join()


def _write_once(path: Path, data: bytes, over: threading.Event) -> None:
    while not over.wait(PIPE_CHECK_SECONDS):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            # Nobody has opened it for reading yet.
            continue
        with os.fdopen(descriptor, "wb") as pipe:
            pipe.write(data)
        return


def _environment(project: Project, folder: Path, playbook: Playbook, become_password: Path | None) -> dict[str, str]:
    environment = {name: os.environ[name] for name in ENVIRONMENT_NAMES if name in os.environ}
    ssh_options = (
        "ControlMaster=auto",
        "ControlPersist=60s",
        "StrictHostKeyChecking=yes",
        f'UserKnownHostsFile="{project.known_hosts}"',
        f"ServerAliveInterval={max(1, round(SILENCE_SECONDS / SIGNS_OF_LIFE))}",
        f"ServerAliveCountMax={SIGNS_OF_LIFE}",
        f"ConnectTimeout={CONNECT_TIMEOUT_SECONDS:.0f}",
    )
    environment |= {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "IRONLEASE_STATE_DIR": str(project.state),
        "ANSIBLE_CONFIG": str(project.root / "ansible.cfg"),
        "ANSIBLE_ROLES_PATH": str(project.root / "roles"),
        "ANSIBLE_LIBRARY": str(project.root / "plugins" / "modules"),
        "ANSIBLE_MODULE_UTILS": str(project.root / "plugins" / "module_utils"),
        "ANSIBLE_ACTION_PLUGINS": str(project.root / "plugins" / "action"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(folder / "cp"),
        "ANSIBLE_SSH_ARGS": " ".join(f"-o {option}" for option in ssh_options),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_DEPRECATION_WARNINGS": "0",
    }
    if playbook.check:
        environment["ANSIBLE_DISPLAY_ARGS_TO_STDOUT"] = "1"
    if playbook.plan_directory is not None:
        environment["IRONLEASE_PLAN_DIR"] = str(playbook.plan_directory)
    if become_password is not None:
        environment["ANSIBLE_BECOME_PASSWORD_FILE"] = str(become_password)
    return environment


def _close_control_masters(folder: Path) -> None:
    """End the SSH masters that Ansible left waiting for a next task."""
    for control_socket in folder.iterdir() if folder.is_dir() else ():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                ["ssh", "-o", f"ControlPath={control_socket}", "-O", "exit", "ironlease"],
                capture_output=True,
                timeout=5,
                check=False,
            )
