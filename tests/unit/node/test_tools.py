from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest

from ironlease_node.tools import FAILED, KILL_GRACE_SECONDS, NOT_FOUND, OK, TIMED_OUT, Command, Runner


@pytest.fixture
def runner():
    return Runner()


def test_answer_and_its_parts(runner):
    outcome = runner.run(["/bin/sh", "-c", "echo out; echo err >&2"])

    assert (outcome.status, outcome.returncode, outcome.stdout, outcome.stderr) == (OK, 0, "out\n", "err\n")


def test_failure_keeps_its_first_line_as_reason(runner):
    outcome = runner.run(["/bin/sh", "-c", "echo no such device >&2; echo more >&2; exit 9"])

    assert (outcome.status, outcome.returncode) == (FAILED, 9)
    assert outcome.reason == "sh: exit status 9: no such device"


def test_failure_without_words(runner):
    assert runner.run(["/bin/false"]).reason == "false: exit status 1: it printed nothing"


def test_missing_program(runner):
    outcome = runner.run(["ironlease-has-no-such-tool"])

    assert outcome.status == NOT_FOUND
    assert outcome.reason == "ironlease-has-no-such-tool: not installed"


def test_nothing_of_the_caller_reaches_the_tool(runner, monkeypatch):
    monkeypatch.setenv("LC_ALL", "xx_XX")
    monkeypatch.setenv("SECRET_THING", "abcd")

    assert "SECRET_THING" not in runner.run(["/usr/bin/env"]).stdout
    assert "LC_ALL=C\n" in runner.run(["/usr/bin/env"]).stdout
    # A tool that asks a question gets an end of file, not our terminal.
    assert runner.run(["/bin/cat"]).stdout == ""


def test_hung_tool_and_its_children_are_ended(runner, tmp_path, is_gone):
    pid_file = tmp_path / "pid"
    started = time.monotonic()

    outcome = runner.run(["/bin/sh", "-c", f"sleep 60 & echo $! > {pid_file}; wait"], timeout_seconds=0.5)

    assert outcome.status == TIMED_OUT
    assert outcome.reason == "sh: timed out after 0.5 s"
    assert time.monotonic() - started < 5
    assert is_gone(int(pid_file.read_text()))


def test_what_cannot_be_killed_is_left_behind(runner, tmp_path):
    """A process in uninterruptible sleep keeps its pipes open; so does one that left the group."""
    pid_file = tmp_path / "pid"
    script = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep 60' & wait"
    started = time.monotonic()

    try:
        outcome = runner.run(["/bin/sh", "-c", script], timeout_seconds=0.5)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid_file.read_text()), signal.SIGKILL)

    assert outcome.status == TIMED_OUT
    assert time.monotonic() - started < 0.5 + KILL_GRACE_SECONDS + 3


def test_all_run_side_by_side(runner):
    started = time.monotonic()

    outcomes = runner.run_all({str(number): Command(["/bin/sleep", "0.5"]) for number in range(8)})

    assert {outcome.status for outcome in outcomes.values()} == {OK}
    assert time.monotonic() - started < 3


def test_a_hung_one_costs_the_others_nothing(runner):
    outcomes = runner.run_all({"hung": Command(["/bin/sleep", "60"], 0.3), "quick": Command(["/bin/echo", "here"], 5)})

    assert outcomes["hung"].status == TIMED_OUT
    assert outcomes["quick"].stdout == "here\n"


def test_more_output_than_a_pipe_holds(runner):
    outcome = runner.run(["/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"])

    assert len(outcome.stdout) == 300_000
