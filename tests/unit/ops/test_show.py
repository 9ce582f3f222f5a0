"""A run's result, again."""

import pytest

from ironlease.console import Table
from ironlease.errors import ExitCode, UnreachableError, UsageError
from ironlease.ops import show
from ironlease.ops.context import Context
from ironlease.ops.result import Result
from ironlease.runs import RunFolder

RESULT = Result(
    data={"hosts": {"node1": {"changed": 2}}},
    lines=["a line", Table(("host", "verdict"), [("node1", "pass")], title="Hosts")],
    summary="1 of 2.",
    errors=[UnreachableError(code="closed", found="a", needed="b", next_step="invoke c", host="node2")],
)


def keep(context: Context, command: str, result: Result = RESULT) -> str:
    folder = RunFolder.create(context.project, command)
    folder.write_json("result.json", result.to_record(command))
    return folder.path.name


def test_a_result_comes_back_as_it_was(context: Context) -> None:
    again = show.run(context, run=keep(context, "provision"))

    assert (again.data, list(again.lines), again.summary) == (RESULT.data, list(RESULT.lines), RESULT.summary)
    assert again.to_json() == RESULT.to_json()
    assert again.exit_code is ExitCode.UNREACHABLE


def test_without_a_name_the_latest_finished_run_is_shown(context: Context) -> None:
    keep(context, "a-first", Result(summary="first"))
    keep(context, "b-second", Result(summary="second"))
    RunFolder.create(context.project, "c-unfinished")

    assert show.run(context).summary == "second"


def test_there_must_be_one(context: Context) -> None:
    with pytest.raises(UsageError, match="no finished run yet"):
        show.run(context)

    name = keep(context, "provision")
    with pytest.raises(UsageError) as refused:
        show.run(context, run=name[:-1])
    assert name in refused.value.needed


def test_a_record_that_is_none_is_refused(context: Context) -> None:
    name = keep(context, "provision")
    for text in ("{", "[]", '{"schema": "ironlease.result/1"}', '{"schema": "ironlease.result/9"}'):
        (context.project.runs / name / "result.json").write_text(text)
        with pytest.raises(UsageError, match=r"result\.json is not"):
            show.run(context, run=name)
