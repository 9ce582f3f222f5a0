"""Runs our agent on a host: one file that needs Python 3.9 and nothing else.

The file lies on the host under its own SHA-256, so that an agent that is there is the right one, and is sent only
when it is missing.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ironlease import agent_archive, redact
from ironlease.errors import ExitCode, IronleaseError, UnfinishedError
from ironlease.paths import Project
from ironlease.ssh import Completed, Connection

PYTHON = "/usr/bin/python3"
ROOT_DIRECTORY = "/var/lib/ironlease/agent"
USER_DIRECTORY = ".cache/ironlease/agent"
# The slowest answer short of a training run: a probe of a machine whose vendor tools hang until their time limits.
ANSWER_TIMEOUT_SECONDS = 120.0


class AgentError(IronleaseError):
    """Our agent crashed on the host, or did not answer in its own language."""

    code = "agent-crashed"
    exit_code = ExitCode.CRASH


class PythonMissingError(IronleaseError):
    """The host has no Python for the agent."""

    code = "python-missing"
    exit_code = ExitCode.USAGE


@dataclass(frozen=True)
class Archive:
    """The agent's one file, built on the control side."""

    path: Path
    sha256: str

    @classmethod
    def build(cls, project: Project) -> Archive:
        """Build the file from this checkout's sources under ``state/``."""
        path = project.state / "agent" / "agent.pyz"
        return cls(path, agent_archive.build(path))


@dataclass(frozen=True)
class Privilege:
    """How a command becomes root on the host: not at all, by ``sudo``, or by ``sudo`` with a password."""

    prefix: tuple[str, ...] = ()
    password: str | None = None

    @classmethod
    def none(cls) -> Privilege:
        """Run as the user who logged in."""
        return cls()

    @classmethod
    def sudo(cls, password: str | None = None) -> Privilege:
        """Run as root through sudo; the password goes to its standard input, never into an argument."""
        if password is None:
            return cls(("sudo", "-n", "--"))
        redact.register(password)
        return cls(("sudo", "-S", "-p", "", "-k", "--"), password)

    def stdin(self, data: bytes) -> bytes:
        """Return what the command must be fed so that it receives ``data``."""
        return data if self.password is None else self.password.encode() + b"\n" + data


class Agent:
    """The agent on one host, as root or as the user who logged in."""

    def __init__(self, connection: Connection, archive: Archive, privilege: Privilege) -> None:
        self.connection = connection
        self._archive = archive
        self._privilege = privilege
        as_root = bool(privilege.prefix) or connection.target.user == "root"
        self._directory = ROOT_DIRECTORY if as_root else USER_DIRECTORY

    @property
    def remote_path(self) -> str:
        """Where the agent's file lies on the host."""
        return f"{self._directory}/{self._archive.sha256}.pyz"

    def argv(self, command: str) -> list[str]:
        """Return the host's command line for an agent command."""
        return [*self._privilege.prefix, PYTHON, "-I", self.remote_path, command]

    def ask(self, command: str, request: Any = None, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS) -> dict[str, Any]:
        """Run an agent command and return its answer; send the agent first when the host lacks it.

        Raises AgentError, PythonMissingError, and what :meth:`Connection.run` raises.
        """
        completed = self._run(command, request, timeout_seconds)
        if self._is_missing(completed):
            self.install()
            completed = self._run(command, request, timeout_seconds)
        return self._answer(command, completed)

    def stdin(self, data: bytes) -> bytes:
        """Return what :meth:`argv` must be fed so that the agent receives ``data``."""
        return self._privilege.stdin(data)

    def _run(self, command: str, request: Any, timeout_seconds: float) -> Completed:
        data = b"" if request is None else json.dumps(request).encode()
        return self.connection.run(self.argv(command), stdin=self.stdin(data), timeout_seconds=timeout_seconds)

    def _is_missing(self, completed: Completed) -> bool:
        return completed.exit_status == 2 and "can't open file" in completed.stderr

    def _answer(self, command: str, completed: Completed) -> dict[str, Any]:
        host = self.connection.target.name
        if completed.exit_status == 127 or "command not found" in completed.stderr:
            raise PythonMissingError(
                found=f"{host} has no {PYTHON}.",
                needed="Python 3.9 or newer from the distribution.",
                next_step="apt-get install --yes python3 (on the host)",
                host=host,
            )
        try:
            answer = json.loads(completed.stdout)
        except ValueError:
            answer = None
        if completed.exit_status == 0 and isinstance(answer, dict):
            return answer
        reason = answer.get("error") if isinstance(answer, dict) else None
        words = redact.scrub(reason or completed.stderr.strip() or completed.stdout.strip() or "nothing was printed")
        raise AgentError(
            found=f"{host}: the agent's `{command}` ended with {completed.exit_status}: {words[-600:]}",
            needed="An answer from the agent.",
            next_step=f"Run again with --debug, and keep the run folder for a report. On the host: {self.remote_path}",
            host=host,
        )

    def install(self) -> None:
        """Put the agent's file in place in one step."""
        host = self.connection.target.name
        temporary = shlex.quote(f"{self.remote_path}.new")
        script = (
            f"umask 077 && mkdir -p {shlex.quote(self._directory)} && cat > {temporary} "
            f"&& mv -f {temporary} {shlex.quote(self.remote_path)}"
        )
        completed = self.connection.run(
            [*self._privilege.prefix, "sh", "-c", script],
            stdin=self.stdin(self._archive.path.read_bytes()),
        )
        if completed.exit_status != 0:
            raise UnfinishedError(
                code="agent-not-installed",
                found=f"{host}: the agent could not be written: {redact.scrub(completed.stderr.strip())}",
                needed=f"Room and the right to write in {self._directory} on the host.",
                next_step=f"Mend it on the host, then run the same command again for {host}.",
                host=host,
            )
