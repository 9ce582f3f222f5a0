"""Short-lived programs of the operating system, each with a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ironlease.lab.errors import LabError

SHORT_SECONDS = 30.0


def tool_path() -> str:
    """Return where programs are looked for: a user's PATH often lacks the folders of the administrator's tools."""
    return os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def run(argv: Sequence[str], *, stdin: str | None = None, limit_seconds: float = SHORT_SECONDS) -> str:
    """Run ``argv`` and return what it printed.

    Raises LabError when it fails, is not there, or takes longer than ``limit_seconds``.
    """
    try:
        done = subprocess.run(
            list(argv),
            input=stdin if stdin is not None else "",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_seconds,
            check=False,
            env={**os.environ, "PATH": tool_path()},
            # Ctrl-C ends our own work in an orderly way; it must not cut `ip` or `mount` in half.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        raise _failed(argv, f"still running after {limit_seconds:g} s") from error
    except OSError as error:
        raise _failed(argv, str(error)) from error
    if done.returncode != 0:
        raise _failed(argv, last_lines(done.stderr or done.stdout) or f"exit code {done.returncode}")
    return done.stdout


def detach(argv: Sequence[str], log: Path, *, pass_descriptors: tuple[int, ...] = ()) -> None:
    """Start ``argv`` so that it outlives this process and whatever ends it: own session, no terminal, no parent.

    It gets nothing of the user's environment. Raises LabError when it cannot be started.
    """
    source = Path(__file__).resolve().parents[2]
    environment = {"PATH": tool_path(), "PYTHONPATH": str(source), "LANG": "C.UTF-8"}
    with log.open("wb") as output:
        try:
            subprocess.run(
                ["setsid", "--fork", *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                pass_fds=pass_descriptors,
                timeout=SHORT_SECONDS,
                check=True,
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise _failed(argv, str(error)) from error


def in_network(namespace: Path, argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` inside a network namespace."""
    return ["nsenter", f"--net={namespace}", "--", *argv]


def last_lines(text: str, count: int = 5) -> str:
    """Return the last ``count`` lines of ``text`` that are not empty, joined by `` / ``."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-count:])


def _failed(argv: Sequence[str], reason: str) -> LabError:
    return LabError(
        code="lab-command",
        found=f"`{' '.join(argv)}` failed: {reason}.",
        needed="The command to succeed.",
        next_step="invoke lab.down",
    )
