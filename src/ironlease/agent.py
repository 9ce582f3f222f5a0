"""Runs our agent on a host: one file that needs Python 3.9 and nothing else, and leaves nothing behind.

The file travels on the command's standard input into an anonymous memory file and is run from there. A host is thus
probed without a byte being written to its disk, and there is never an old agent to be mistaken for the right one.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ironlease import agent_archive, redact
from ironlease.errors import ExitCode, IronleaseError, UsageError
from ironlease.paths import Project
from ironlease.ssh import Channel, Completed, Connection

PYTHON = "/usr/bin/python3"
# The slowest answer short of a training run: a probe of a machine whose vendor tools hang until their time limits.
ANSWER_TIMEOUT_SECONDS = 120.0

# Reads the archive's bytes and not one more: what follows on standard input is the agent's own.
_LOADER = (
    "import os,sys\n"
    "if sys.version_info<(3,9): sys.exit('python-too-old '+sys.version.split()[0])\n"
    "left=int(sys.argv[1])\n"
    "file=os.memfd_create('ironlease-agent',0)\n"
    "while left:\n"
    " part=os.read(0,min(left,65536))\n"
    " if not part: sys.exit('the agent did not arrive whole')\n"
    " left-=len(part)\n"
    " while part: part=part[os.write(file,part):]\n"
    "os.execv(sys.executable,[sys.executable,'-I','/proc/self/fd/%d'%file]+sys.argv[2:])\n"
)


# What the agent answers when it says no, and why (ironlease_node.refusal).
_REFUSAL_SCHEMA = "ironlease.refusal/1"
_REFUSAL_KEYS = {"code", "error", "found", "needed", "next"}


# What an answer must hold before anything is made of it: a strange host must not stop the work on others.
ANSWER_KEYS = {
    "probe": ("schema", "boot_id", "problems", "packages", "os"),
    "snapshot": ("schema", "path", "sha256"),
    "observe": ("schema", "total", "as_wanted", "differences"),
    "manifest": ("schema", "digest", "machine"),
    "baseline": ("schema", "verdict"),
    "hold": ("held",),
}


class AgentError(IronleaseError):
    """Our agent crashed on the host, or did not answer in its own language."""

    code = "agent-crashed"
    exit_code = ExitCode.CRASH


class PythonMissingError(UsageError):
    """The host has no Python for the agent, or one that is too old."""

    code = "python-missing"


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

    @cached_property
    def content(self) -> bytes:
        """The file's bytes."""
        return self.path.read_bytes()


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
        # -k: sudo must read the password even when it remembers one, or the line would reach the command.
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

    @property
    def host(self) -> str:
        """The name of the host."""
        return self.connection.target.name

    def ask(self, command: str, request: Any = None, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS) -> dict[str, Any]:
        """Run an agent command and return its answer.

        Raises AgentError, PythonMissingError, and what :meth:`Connection.run` raises.
        """
        data = b"" if request is None else json.dumps(request).encode()
        completed = self.connection.run(self._argv(command), stdin=self._stdin(data), timeout_seconds=timeout_seconds)
        return self._answer(command, completed)

    def start(self, command: str, request: Any, *, timeout_seconds: float) -> tuple[Channel, dict[str, Any]]:
        """Start a command that goes on until its standard input is closed; return its channel and its first line.

        Raises what :meth:`ask` raises when there is no such line within ``timeout_seconds``.
        """
        data = self._stdin(json.dumps(request).encode() + b"\n")
        started = self.connection.start(self._argv(command), data, timeout_seconds=timeout_seconds)
        try:
            # What has ended has nothing to go on with: its words say why.
            return started.channel, self._answer(command, started.ended or Completed(0, started.first_line, b""))
        except BaseException:
            started.channel.close()
            raise

    def _argv(self, command: str) -> list[str]:
        size = str(len(self._archive.content))
        return [*self._privilege.prefix, PYTHON, "-I", "-c", _LOADER, size, command]

    def _stdin(self, data: bytes) -> bytes:
        return self._privilege.stdin(self._archive.content + data)

    def _answer(self, command: str, completed: Completed) -> dict[str, Any]:
        found = self._python_trouble(completed)
        if found is not None:
            raise PythonMissingError(
                found=f"{self.host} {found}.",
                needed="Python 3.9 or newer from the distribution.",
                next_step=f"On {self.host}: apt-get install --yes python3 (or choose a newer release, invoke stacks "
                "lists them), then run the same command again.",
                host=self.host,
            )
        answer = _object_in(completed.stdout)
        if answer is not None and answer.get("schema") == _REFUSAL_SCHEMA and answer.keys() >= _REFUSAL_KEYS:
            raise self._refused(command, answer)
        if completed.exit_status == 0 and answer is not None:
            missing = [key for key in ANSWER_KEYS.get(command, ()) if key not in answer]
            if missing:
                raise self._crashed(command, f"answered without {', '.join(missing)}")
            return answer
        words = completed.stderr.strip() or completed.stdout.strip() or "nothing was printed"
        raise self._crashed(command, f"ended with {completed.exit_status}: {words[-600:]}")

    def _python_trouble(self, completed: Completed) -> str | None:
        too_old = re.search(r"^python-too-old (\S+)$", completed.stderr, re.MULTILINE)
        if too_old is not None:
            return f"has Python {too_old[1]}"
        missing = completed.exit_status == 127 or "command not found" in completed.stderr
        return f"has no {PYTHON}" if missing else None

    def _refused(self, command: str, refusal: dict[str, Any]) -> IronleaseError:
        if refusal["code"] in {"bad-command", "bad-input"}:
            # Only this program speaks to the agent: a request that it does not understand is our own mistake.
            return self._crashed(command, f"did not understand us: {refusal['error']}")
        return UsageError(
            code=refusal["code"],
            found=f"{self.host}: {refusal['found']}",
            needed=refusal["needed"],
            next_step=f"On {self.host}: {refusal['next']}, then run the same command again.",
            host=self.host,
        )

    def _crashed(self, command: str, how: str) -> AgentError:
        return AgentError(
            found=f"{self.host}: the agent's `{command}` {redact.scrub(how)}",
            needed="An answer from the agent.",
            next_step="Run the same command again with --debug, and keep the run folder for a report.",
            host=self.host,
        )


def _object_in(text: str) -> dict[str, Any] | None:
    """Return the JSON object that ``text`` is, or None when it is anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        # A host may send brackets in brackets, as deep as it likes.
        return None
    return value if isinstance(value, dict) else None
