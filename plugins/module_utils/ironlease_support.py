"""What our modules share: programs with a time limit, and failures in three parts."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

# A killed program gets this long to go; one in uninterruptible sleep is left behind.
KILL_GRACE_SECONDS = 5
# Enough for the whole complaint of apt or pip, and little enough to read.
WORDS_LINES = 12


class RefusalError(Exception):
    """What was found, what is needed, and what to do next."""

    def __init__(self, *, found: str, needed: str, next_step: str) -> None:
        super().__init__(found)
        self.found = found
        self.needed = needed
        self.next_step = next_step

    def message(self) -> str:
        """Return the three lines that every failure of ours has; the control side reads them back."""
        return f"Found: {self.found}\nNeeded: {self.needed}\nNext: {self.next_step}"


class Ended(NamedTuple):
    """How a program ended: its exit status, None when it was stopped at its time limit, and all that it printed."""

    status: int | None
    output: str

    def words(self, wanted: tuple[str, ...] = ()) -> str:
        """Return the last lines that begin with one of ``wanted``; the last lines of all when none does."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        chosen = [line for line in lines if line.startswith(wanted)] if wanted else []
        return "\n".join((chosen or lines)[-WORDS_LINES:]) or "it printed nothing"


def run(argv: list[str], timeout_seconds: float, environment: dict[str, str]) -> Ended:
    """Run a program to its end or its time limit, with ``environment`` on top of this process's own.

    Raises OSError when it cannot be started.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # LANGUAGE wins over LC_ALL=C.UTF-8 in gettext: apt would answer in the host's language.
        env={**os.environ, "LANGUAGE": "", **environment},
        encoding="utf-8",
        errors="replace",
        # A group of its own, so that the kill reaches the program's children too.
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        return Ended(None, _kill(process))
    return Ended(process.returncode, output)


def _kill(process: subprocess.Popen[str]) -> str:
    try:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate(timeout=KILL_GRACE_SECONDS)[0]
    except (ProcessLookupError, subprocess.TimeoutExpired):
        return ""


def process_name(pid: int) -> str:
    """Return a process's command line for a reader, shortened; its number alone when it is gone."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        command = ""
    return f"process {pid} ({command[:120]})" if command else f"process {pid}"


def fail(module: Any, refusal: RefusalError, **values: Any) -> None:
    """End the module with a refusal."""
    module.fail_json(msg=refusal.message(), **values)
