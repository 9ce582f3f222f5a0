"""From the words of a command line to words, JSON and an exit code, all in this process."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ironlease.errors import ExitCode
from ironlease.paths import Project


@pytest.fixture(autouse=True)
def _as_typed_inside_the_venv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IRONLEASE_COMMAND", raising=False)


def test_a_result_is_told_in_words(invoke: Callable) -> None:
    outcome = invoke("echo", "--host", "node1")

    assert outcome.code == ExitCode.OK
    assert outcome.stdout.splitlines()[0].strip() == "host"
    assert outcome.stdout.splitlines()[-1] == "Said."
    assert outcome.stderr == ""


def test_a_result_is_one_json_object(invoke: Callable) -> None:
    outcome = invoke("echo", "--json", "--host", "node1")

    assert outcome.json["ok"] is True
    assert outcome.json["seen"]["host"] == ["node1"]
    assert outcome.json["seconds"] >= 0
    assert "errors" not in outcome.json
    assert "Said." in outcome.stderr


def test_all_refusals_are_printed_and_the_first_in_rank_decides(invoke: Callable) -> None:
    outcome = invoke("refuse")

    assert outcome.code == ExitCode.USAGE
    assert outcome.stdout == ""
    assert "found:  first thing\nneeded: a\nnext:   invoke echo\n" in outcome.stderr
    assert "found:  node2: second thing" in outcome.stderr


def test_refusals_are_one_json_object(invoke: Callable) -> None:
    outcome = invoke("refuse", "--json")

    assert outcome.code == ExitCode.USAGE
    assert outcome.json["ok"] is False
    assert [error["found"] for error in outcome.json["errors"]] == ["first thing", "second thing"]
    assert outcome.json["errors"][1]["host"] == "node2"


def test_a_wrong_line_is_one_json_object(invoke: Callable) -> None:
    outcome = invoke("ecoh", "--json")

    assert outcome.code == ExitCode.USAGE
    assert outcome.json["errors"][0]["next"] == "invoke echo --json"


def test_errors_come_after_the_lines_and_before_the_summary(invoke: Callable) -> None:
    outcome = invoke("partly")

    assert outcome.code == ExitCode.UNREACHABLE
    assert outcome.stdout == "node1 done\n1 of 2.\n"
    assert "found:  node2: no answer" in outcome.stderr


def test_a_run_folder_is_named_and_holds_the_result(invoke: Callable, project: Project) -> None:
    outcome = invoke("partly", "--json")

    folder = Path(outcome.json["run_dir"])
    assert folder.parent == project.runs
    assert folder.name.endswith("-partly")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "result.json").is_file()


def test_a_task_that_keeps_nothing_leaves_no_folder(invoke: Callable, project: Project) -> None:
    invoke("echo")

    assert not project.runs.exists()


def test_a_crash_says_where_its_log_is(invoke: Callable, project: Project) -> None:
    outcome = invoke("crash")

    (log,) = project.runs.glob("*-crash/crash.log")
    assert outcome.code == ExitCode.CRASH
    assert "found:  ironlease crashed: RuntimeError: boom" in outcome.stderr
    assert str(log) in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "Traceback" in log.read_text()


def test_a_crash_under_debug_shows_its_traceback(invoke: Callable) -> None:
    assert "Traceback" in invoke("crash", "--debug").stderr


def test_a_crash_is_one_json_object_although_a_library_printed(invoke: Callable) -> None:
    outcome = invoke("crash", "--json")

    assert outcome.code == ExitCode.CRASH
    assert outcome.json["errors"][0]["code"] == "crash"
    assert "printed by a library" in outcome.stderr


def test_a_crash_without_a_place_for_its_log_is_still_told(
    invoke: Callable, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.runs.write_text("in the way")
    # Not the variable: tempfile has read it before.
    monkeypatch.setattr(tempfile, "tempdir", str(project.root))

    outcome = invoke("crash")

    assert outcome.code == ExitCode.CRASH
    (log,) = project.root.glob("ironlease-crash-*/crash.log")
    assert str(log) in outcome.stderr


def test_unknown_is_not_all_well(invoke: Callable) -> None:
    outcome = invoke("unsure", "--json")

    assert outcome.code == ExitCode.UNKNOWN
    assert outcome.json["ok"] is False


def test_an_interruption_is_calm(invoke: Callable) -> None:
    outcome = invoke("stop", "--json")

    assert outcome.code == ExitCode.UNFINISHED
    assert outcome.json["errors"][0]["code"] == "interrupted"
    assert "Traceback" not in outcome.stderr


@pytest.mark.parametrize("words", [[], ["--list"], ["-l"], ["--help"], ["echo", "--list"]])
def test_the_list_has_every_task_under_its_heading(invoke: Callable, words: list[str]) -> None:
    outcome = invoke(*words)

    lines = outcome.stdout.splitlines()
    assert outcome.code == ExitCode.OK
    assert lines.index("Talk") < lines.index("  echo     Give back what was read.") < lines.index("Lab")
    assert "  lab.ssh  Need a host." in lines


def test_the_list_for_programs(invoke: Callable) -> None:
    tasks = invoke("--list", "--json").json["tasks"]

    assert {"name": "lab.ssh", "group": "Lab"}.items() <= tasks[-1].items()
    assert tasks[-1]["flags"] == [{"name": "--host", "value": "HOST", "needed": True, "help": "the host"}]


@pytest.mark.parametrize("words", [["echo", "--help"], ["echo", "-h"], ["--help", "echo"]])
def test_a_task_has_a_page(invoke: Callable, words: list[str]) -> None:
    outcome = invoke(*words)

    assert outcome.code == ExitCode.OK
    for part in (
        "Give back what was read.",
        "At some length.",
        "--host HOST[,HOST...]",
        "--json",
        "invoke echo --host a,b",
    ):
        assert part in outcome.stdout
    for code in ExitCode:
        assert f"  {int(code)} " in outcome.stdout


def test_the_page_for_programs(invoke: Callable) -> None:
    assert invoke("echo", "--help", "--json").json["task"]["name"] == "echo"


def test_the_version(invoke: Callable) -> None:
    assert invoke("--version").stdout.startswith("ironlease ")
    assert invoke("--version", "--json").json["ok"] is True


def test_commands_are_shown_as_they_can_be_typed(invoke: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IRONLEASE_COMMAND", "./invoke")

    assert "next:   ./invoke echo\n" in invoke("refuse").stderr
    assert invoke("refuse", "--json").json["errors"][0]["next"] == "./invoke echo"
    assert "  ./invoke TASK --help" in invoke().stdout
