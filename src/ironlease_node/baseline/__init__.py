"""`baseline`: a distributed training as evidence that a stack works. docs/reference/baseline.md describes the answer.

Both phases run in fresh processes of the stack's own interpreter, as an unprivileged user. What they report lies in a
folder of that user's, and is read as data from a stranger.
"""

from __future__ import annotations

import json
import os
import pkgutil
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Any

from ironlease_node import environment as python_environment
from ironlease_node import self_file
from ironlease_node.baseline import judge, launch
from ironlease_node.refusal import Refusal, required_text
from ironlease_node.text import sha256_of, utc_now

SCHEMA = "ironlease.baseline/1"

STEPS = 60
CONTINUE_STEPS = 10
DEFAULT_PROCESSES = 2
MOST_PROCESSES = 64
DEFAULT_TIME_LIMIT_SECONDS = 180
LARGEST_REPORT_BYTES = 1024 * 1024
# The checkpoint of this model has well under a megabyte; what is larger was not written by it.
LARGEST_CHECKPOINT_BYTES = 64 * 1024 * 1024


class NotProvedError(Exception):
    """The training gave no evidence, with the verdict (`fail` or `unknown`) and the reason."""

    def __init__(self, verdict: str, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return `ironlease.baseline/1`.

    The request has `environment` (a folder), `user`, and may have `processes` and `time_limit_seconds`.
    Raises Refusal.
    """
    environment = Path(required_text(request, "environment", "baseline"))
    account = launch.find_account(required_text(request, "user", "baseline"))
    processes = _number(request, "processes", DEFAULT_PROCESSES, MOST_PROCESSES)
    time_limit_seconds = _number(request, "time_limit_seconds", DEFAULT_TIME_LIMIT_SECONDS, 3600)
    return Training(environment, account, processes, time_limit_seconds).prove()


def _number(request: dict[str, Any], key: str, default: int, most: int) -> int:
    value = request.get(key, default)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most:
        return value
    raise Refusal(
        code="bad-input",
        found=f"`{key}` is {value!r}.",
        needed=f"A whole number from 1 to {most}.",
        next_step=f"Leave `{key}` out for {default}.",
    )


class Training:
    """One proof: two phases in one temporary folder, under one time limit."""

    def __init__(self, environment: Path, account: launch.Account, processes: int, time_limit_seconds: float) -> None:
        self.environment = environment
        self.account = account
        self.processes = processes
        self._deadline_seconds = time.monotonic() + time_limit_seconds
        # Ours: the script and the log. Others may pass through it, and not write.
        self.folder = Path(tempfile.mkdtemp(prefix="ironlease-baseline-"))
        # The user's: home folder, reports, checkpoint.
        self.run_folder = self.folder / "run"
        self._log = self.folder / "log.txt"
        self._seconds: dict[str, float] = {}

    def prove(self) -> dict[str, Any]:
        """Run both phases and return the evidence; the folder is gone afterwards."""
        started_at, started_seconds = utc_now(), time.monotonic()
        reports: dict[str, Any] = {"train": None, "resume": None}
        checkpoint = None
        checks: list[judge.Check] = []
        try:
            self._prepare()
            reports["train"] = self.phase("train")
            checkpoint = self._checkpoint()
            reports["resume"] = self.phase("resume")
            checks = self._judged(reports)
            verdict, reason = judge.verdict_of(checks)
        except NotProvedError as error:
            verdict, reason = error.verdict, error.reason
        finally:
            tail = launch.log_tail(self._log)
            shutil.rmtree(self.folder, ignore_errors=True)
        self._seconds["total"] = round(time.monotonic() - started_seconds, 3)
        return {
            "schema": SCHEMA,
            "agent": self_file.describe(),
            "started_at": started_at,
            "verdict": verdict,
            "reason": reason,
            "environment": str(self.environment),
            "user": self.account.name,
            "processes": self.processes,
            "checks": [check._asdict() for check in checks],
            "train": reports["train"],
            "resume": reports["resume"],
            "checkpoint": checkpoint,
            "seconds": self._seconds,
            "log_tail": None if verdict == judge.PASS else tail,
        }

    def phase(self, name: str) -> dict[str, Any]:
        """Run one phase and return its report.

        Raises NotProvedError.
        """
        left_seconds = self._deadline_seconds - time.monotonic()
        arguments = [
            f"--phase={name}",
            f"--folder={self.run_folder}",
            f"--steps={STEPS}",
            f"--continue-steps={CONTINUE_STEPS}",
            f"--time-limit-seconds={max(int(left_seconds) + 1, 1)}",
        ]
        ending = launch.run(
            launch.build_command(self.environment, self.processes, self.folder / "ddp.py", arguments),
            variables=launch.build_environment(self.environment, self.account, self.run_folder),
            account=self.account,
            folder=self.run_folder,
            log=self._log,
            timeout_seconds=left_seconds,
        )
        self._seconds[name] = round(ending.seconds, 3)
        if ending.status is None:
            raise NotProvedError(judge.UNKNOWN, f"phase {name}: {ending.reason}")
        if ending.status < 0:
            raise NotProvedError(judge.UNKNOWN, f"phase {name}: it was killed by signal {-ending.status}")
        if ending.status > 0:
            raise NotProvedError(judge.FAIL, f"phase {name}: it ended with exit status {ending.status}")
        return self._report(name)

    def _prepare(self) -> None:
        """Write the script, and find out whether there is anything to run it with.

        Raises NotProvedError.
        """
        script = pkgutil.get_data("ironlease_node.training", "ddp.py")
        if script is None:
            raise NotProvedError(judge.UNKNOWN, "the agent does not carry its training script")
        try:
            interpreter = python_environment.ask_interpreter(self.environment)
        except python_environment.EnvironmentBrokenError as error:
            raise NotProvedError(judge.UNKNOWN, str(error)) from error
        if not any((folder / "torch" / "version.py").is_file() for folder in interpreter.site_packages):
            raise NotProvedError(judge.UNKNOWN, f"torch is not installed in {self.environment}")
        self.folder.chmod(0o711)
        (self.folder / "ddp.py").write_bytes(script)
        (self.folder / "ddp.py").chmod(0o644)
        self.run_folder.mkdir(mode=0o700)
        if self.account.switch:
            os.chown(self.run_folder, self.account.uid, self.account.gid)

    def _report(self, name: str) -> dict[str, Any]:
        data = self._read(f"{name}.json", LARGEST_REPORT_BYTES)
        try:
            report = json.loads(data)
        except ValueError as error:
            raise NotProvedError(judge.UNKNOWN, f"phase {name}: its report is not JSON") from error
        if not isinstance(report, dict):
            raise NotProvedError(judge.UNKNOWN, f"phase {name}: its report is no JSON object")
        return report

    def _checkpoint(self) -> dict[str, Any]:
        data = self._read("checkpoint.pt", LARGEST_CHECKPOINT_BYTES)
        return {"sha256": sha256_of(data), "size_bytes": len(data)}

    def _read(self, name: str, largest_bytes: int) -> bytes:
        """Read a file from the user's folder. A link there could lead root to any file, so none is followed.

        Raises NotProvedError.
        """
        try:
            descriptor = os.open(self.run_folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as handle:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > largest_bytes:
                    raise NotProvedError(judge.UNKNOWN, f"{name} is not a regular file of reasonable size")
                return handle.read(largest_bytes)
        except OSError as error:
            raise NotProvedError(judge.UNKNOWN, f"the training ended and left no {name}: {error.strerror}") from error

    def _judged(self, reports: dict[str, Any]) -> list[judge.Check]:
        try:
            return judge.judge(reports["train"], reports["resume"], self.account.uid)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise NotProvedError(judge.UNKNOWN, f"a report is not as the training writes it: {error!r}") from error
