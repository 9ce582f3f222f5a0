"""Runs other programs, each with a time limit that holds even when the program cannot be killed.

A lost GPU leaves `nvidia-smi` in uninterruptible sleep: the kill does not reach it, and waiting for its end would hang
the agent. Such a process is left behind after a short grace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import NamedTuple

OK = "ok"
FAILED = "failed"
NOT_FOUND = "not-found"
TIMED_OUT = "timed-out"

DEFAULT_TIMEOUT_SECONDS = 5.0
KILL_GRACE_SECONDS = 0.5

# Nothing of the caller's session changes what a tool prints; sbin is missing from many users' PATH.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


class Command(NamedTuple):
    """A program to run: its list of arguments and its time limit."""

    argv: list[str]
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS


class Outcome(NamedTuple):
    """How a program ended. ``returncode`` is None unless it ended by itself."""

    tool: str
    status: str
    returncode: int | None = None
    stdout: str = ""
    stderr: str = ""
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS

    @property
    def reason(self) -> str:
        """Say in a few words why there is no answer."""
        if self.status == NOT_FOUND:
            return f"{self.tool}: not installed"
        if self.status == TIMED_OUT:
            return f"{self.tool}: timed out after {self.timeout_seconds:g} s"
        words = (self.stderr.strip() or self.stdout.strip() or "it printed nothing").splitlines()[0]
        return f"{self.tool}: exit status {self.returncode}: {words[:200]}"


class Runner:
    """Runs programs; tests give the parts an object with the same two methods."""

    def run(self, argv: list[str], timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> Outcome:
        """Run one program to its end or its time limit."""
        return self.run_all({"": Command(argv, timeout_seconds)})[""]

    def run_all(self, commands: dict[str, Command]) -> dict[str, Outcome]:
        """Start all programs at once and collect them: together they take as long as the slowest."""
        started_seconds = time.monotonic()
        processes = {name: _start(command) for name, command in commands.items()}
        return {
            name: _collect(command, processes[name], started_seconds + command.timeout_seconds)
            for name, command in commands.items()
        }


def _start(command: Command) -> subprocess.Popen[str] | None:
    try:
        return subprocess.Popen(
            command.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            encoding="utf-8",
            errors="replace",
            # A group of its own, so that the kill reaches the program's children too.
            start_new_session=True,
        )
    except OSError:
        return None


def _collect(command: Command, process: subprocess.Popen[str] | None, deadline_seconds: float) -> Outcome:
    tool = command.argv[0].rpartition("/")[2]
    if process is None:
        return Outcome(tool, NOT_FOUND)
    try:
        stdout, stderr = process.communicate(timeout=max(deadline_seconds - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        _kill(process)
        return Outcome(tool, TIMED_OUT, timeout_seconds=command.timeout_seconds)
    status = OK if process.returncode == 0 else FAILED
    return Outcome(tool, status, process.returncode, stdout, stderr, command.timeout_seconds)


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=KILL_GRACE_SECONDS)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        # Gone already, or in uninterruptible sleep: nothing more can be done about it from here.
        return
