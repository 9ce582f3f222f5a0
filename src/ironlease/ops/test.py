"""``invoke test``: ironlease's own tests, by kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ironlease import system_packages
from ironlease.errors import ExitCode, UnfinishedError, UsageError
from ironlease.ops.context import Context
from ironlease.ops.result import Result

KINDS = ("unit", "contract", "roles", "e2e")
KINDS_WITH_LAB = {"roles", "e2e"}
# Twice what the whole suite may take on the smallest machine it is meant for.
TIMEOUT_SECONDS = 2 * 45 * 60
# An interrupted suite still takes its lab down.
_CLEAN_UP_SECONDS = 180
_REPORT = "tests.xml"

# pytest's exit codes in the words of ours; anything else is a crash.
_EXIT_CODES = {
    0: ExitCode.OK,
    1: ExitCode.FAIL,
    2: ExitCode.UNFINISHED,  # interrupted, or a test file that could not be loaded
    4: ExitCode.USAGE,
    5: ExitCode.UNKNOWN,  # no test ran: nothing was shown to be right
}


def run(context: Context, *, only: list[str], fast: bool) -> Result:
    """Run the tests of the kinds ``only`` (all when empty); ``fast`` leaves out those that boot lab hosts."""
    kinds = [kind for kind in KINDS if kind in only or not only]
    folders = [context.project.root / "tests" / kind for kind in kinds]
    present = [folder for folder in folders if folder.is_dir()]
    if not present:
        raise UsageError(
            code="no-tests",
            found=f"There are no tests of the kind {', '.join(kinds)} in {context.project.root / 'tests'}.",
            needed="A checkout with its tests.",
            next_step="git checkout -- tests",
        )
    if KINDS_WITH_LAB & set(kinds) and not fast:
        system_packages.ensure(context.console, ["ssh", "lab"], task="test")
    report = context.run_folder.path / _REPORT
    code = _run_to_its_end(context, _command(context, present, report, fast=fast))
    return Result(data=_counts(report), exit_code=_EXIT_CODES.get(code, ExitCode.CRASH))


def _command(context: Context, folders: list[Path], report: Path, *, fast: bool) -> list[str]:
    command = [sys.executable, "-m", "pytest", f"--junit-xml={report}", *(str(folder) for folder in folders)]
    if fast:
        command += ["-m", "not lab"]
    if not context.console.color:
        command += ["--color=no"]
    return command


def _run_to_its_end(context: Context, command: list[str]) -> int:
    """Run pytest and return its exit code; an interruption reaches it once, and it gets the time to clean up."""
    with subprocess.Popen(
        command,
        cwd=context.project.root,
        # The tests look at messages as they are before they are fitted to what was typed.
        env={name: value for name, value in os.environ.items() if name != "IRONLEASE_COMMAND"},
        stdin=subprocess.DEVNULL,
        # In a process group of its own, so that Ctrl-C on a terminal does not interrupt it a second time.
        process_group=0,
    ) as process:
        try:
            return process.wait(TIMEOUT_SECONDS)
        except KeyboardInterrupt:
            context.console.note("Stopping the tests; they are given the time to clean up.")
            _end(process)
            raise
        except subprocess.TimeoutExpired:
            _end(process)
            raise UnfinishedError(
                code="tests-too-slow",
                found=f"The tests were not done after {TIMEOUT_SECONDS // 60} minutes.",
                needed="Tests that end.",
                next_step="invoke test --only unit,contract",
            ) from None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_CLEAN_UP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _counts(report: Path) -> dict[str, Any]:
    """Return how many tests had which outcome; without a report nothing is known."""
    try:
        suites = ElementTree.parse(report).getroot().iter("testsuite")  # noqa: S314 - our own pytest wrote it
        numbers = [{name: int(value) for name, value in suite.attrib.items() if value.isdecimal()} for suite in suites]
    except (OSError, ElementTree.ParseError):
        return {"passed": None, "failed": None, "skipped": None}
    total, failures, errors, skipped = (
        sum(one.get(name, 0) for one in numbers) for name in ("tests", "failures", "errors", "skipped")
    )
    failed = failures + errors
    return {"passed": total - failed - skipped, "failed": failed, "skipped": skipped}
