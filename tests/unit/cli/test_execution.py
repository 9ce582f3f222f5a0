"""What happens around a task's body."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ironlease import system_packages
from ironlease.cli.declaration import HOSTS, Task
from ironlease.cli.execution import execute
from ironlease.console import Console
from ironlease.errors import ExitCode, UsageError
from ironlease.ops.context import Context
from ironlease.ops.result import Result
from ironlease.paths import Project
from ironlease.runs import RunFolder


@pytest.fixture
def asked(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    for name, host in (("lab", "lab1"), ("fleet", "node1")):
        (project.inventories / name).mkdir(parents=True)
        (project.inventories / name / "hosts.yml").write_text(f"gpu_nodes: {{hosts: {{{host}: {{}}}}}}")
    monkeypatch.delenv("IRONLEASE_INVENTORY", raising=False)
    groups: list[list[str]] = []
    monkeypatch.setattr(system_packages, "ensure", lambda console, names, *, task: groups.append(names))
    return groups


def run(project: Project, body: Callable[..., Result], needs: list[str], **options: Any) -> Result:
    task = Task(body, name="task", example="invoke task", needs=needs)
    return execute(task, options, Context(command="task", console=Console(), project=project))


def nothing(context: Context, *, host: Any = ()) -> Result:
    return Result()


@pytest.mark.parametrize(
    ("needs", "host", "groups"),
    [
        ([], ["lab1"], []),
        (["lint"], [], ["lint"]),
        ([HOSTS], ["lab1"], ["ssh", "lab"]),
        ([HOSTS], "lab1", ["ssh", "lab"]),
        ([HOSTS], ["node1"], ["ssh"]),
        (["ssh"], ["lab1"], ["ssh"]),
    ],
)
def test_the_tools_are_those_of_the_hosts(
    project: Project, asked: list[list[str]], needs: list[str], host: Any, groups: list[str]
) -> None:
    run(project, nothing, needs, host=host)

    assert asked == [groups]


def test_without_its_tools_a_body_does_not_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(console: Console, names: list[str], *, task: str) -> None:
        raise UsageError(found="missing", needed="b", next_step="c")

    def body(context: Context) -> Result:
        raise AssertionError("ran")

    monkeypatch.setattr(system_packages, "ensure", refuse)
    result = run(project, body, ["lint"])

    assert result.exit_code is ExitCode.USAGE
    assert result.errors[0].found == "missing"


@pytest.mark.parametrize("word", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_nothing_is_no_mistake_of_ours(project: Project, asked: list[list[str]], word: int) -> None:
    def body(context: Context) -> Result:
        raise OSError(word, "no room", "/somewhere")

    result = run(project, body, [])

    assert (result.errors[0].code, result.exit_code) == ("cannot-write", ExitCode.UNFINISHED)
    assert "/somewhere" in result.errors[0].found


def test_another_error_of_the_system_is_a_crash(project: Project, asked: list[list[str]]) -> None:
    def body(context: Context) -> Result:
        raise OSError(errno.EBADF, "bad file")

    assert run(project, body, []).exit_code is ExitCode.CRASH


def test_what_was_done_is_told_although_it_cannot_be_kept(
    project: Project, asked: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: RunFolder, name: str, value: Any) -> Path:
        raise OSError(errno.ENOSPC, "no room")

    def body(context: Context) -> Result:
        context.run_folder.write_text("note.txt", "kept")
        return Result(data={"done": 1}, summary="All done.")

    monkeypatch.setattr(RunFolder, "write_json", refuse)
    result = run(project, body, [])

    assert (result.data["done"], result.summary) == (1, "All done.")
    assert (result.errors[0].code, result.exit_code) == ("cannot-write", ExitCode.UNFINISHED)


def test_what_was_kept_before_an_error_is_named_with_it(project: Project, asked: list[list[str]]) -> None:
    def body(context: Context) -> Result:
        context.run_folder.write_text("note.txt", "kept")
        raise UsageError(found="then no", needed="b", next_step="c")

    result = run(project, body, [])

    folder = Path(result.data["run_dir"])
    assert {path.name for path in folder.iterdir()} == {"note.txt", "result.json"}
    assert [error.found for error in result.errors] == ["then no"]
