"""What is not understood is refused, with the nearest thing that would have been."""

import pytest

from ironlease.cli.program import Program
from ironlease.cli.reader import CommandLine, Reader
from ironlease.errors import UsageError


@pytest.fixture
def reader(program: Program) -> Reader:
    return Reader(program.initial_context, program._contexts())


def refusal(reader: Reader, *words: str) -> UsageError:
    with pytest.raises(UsageError) as refused:
        reader.read(words)
    return refused.value


def options(line: CommandLine, *names: str) -> list[object]:
    return [line.options[name] for name in names]


def test_flags_may_be_written_in_both_ways(reader: Reader) -> None:
    line = reader.read(["echo", "--host", "a,b", "--number=3", "--yes"])

    assert line.task == "echo"
    assert options(line, "host", "number", "yes", "run") == [["a", "b"], 3, True, None]


def test_common_flags_are_understood_before_and_after_the_task(reader: Reader) -> None:
    for words in (["--json", "echo"], ["echo", "--json"]):
        line = reader.read(words)

        assert (line.task, line.common["json"], line.common["debug"]) == ("echo", True, False)


def test_a_list_may_be_given_in_parts_and_keeps_each_entry_once(reader: Reader) -> None:
    line = reader.read(["echo", "--host", "b,a", "--host=c, a"])

    assert options(line, "host") == [["b", "a", "c"]]


def test_a_value_after_an_equals_sign_may_look_like_a_flag(reader: Reader) -> None:
    assert options(reader.read(["echo", "--run=--odd"]), "run") == ["--odd"]


def test_without_a_task_nothing_is_asked_for(reader: Reader) -> None:
    assert reader.read([]).task is None


def test_help_does_not_insist_on_needed_flags(reader: Reader) -> None:
    assert reader.read(["lab.ssh", "--help"]).common["help"] is True


@pytest.mark.parametrize(
    ("words", "found", "next_step"),
    [
        (["ecoh", "--yes"], "There is no task 'ecoh'", "invoke echo --yes"),
        (["ssh", "--host", "a"], "There is no task 'ssh'", "invoke lab.ssh --host a"),
        (["lab"], "lab is a group of tasks", "invoke lab.ssh --help"),
        (["zzzzzz"], "There is no task 'zzzzzz'", "invoke --list"),
        (["echo", "--hots", "a"], "no flag --hots of echo", "invoke echo --host a"),
        (["echo", "--hots=a"], "no flag --hots of echo", "invoke echo --host=a"),
        (["echo", "--jsno"], "no flag --jsno of echo", "invoke echo --json"),
        (["echo", "-x"], "no flag -x of echo", "invoke echo --help"),
        (["--qqqqqq"], "no flag --qqqqqq of invoke", "invoke --help"),
        (["--yes", "echo"], "--yes comes before the task", "invoke --list"),
        (["echo", "--run"], "--run has no value", "invoke echo --help"),
        (["echo", "--run="], "--run has no value", "invoke echo --help"),
        (["echo", "--run", ""], "--run has no value", "invoke echo --help"),
        (["echo", "--host", "--json"], "--host is followed by --json", "invoke echo --help"),
        (["echo", "--host", "--jsno"], "--host is followed by --jsno", "invoke echo --help"),
        (["echo", "--run", "a", "--run", "b"], "--run was given twice", "invoke echo --help"),
        (["echo", "--yes=no"], "--yes was given the value 'no'", "invoke echo --yes"),
        (["echo", "node1"], "echo does not take the word 'node1'", "invoke echo --help"),
        (["echo", "--", "node1"], "no flag -- of echo", "invoke echo --help"),
        (["echo", "refuse"], "refuse is a second task after echo", "invoke echo && invoke refuse"),
        (["echo", "--host", "a,,b"], "--host a,,b has an empty entry", "invoke echo --host a,b"),
        (["echo", "--number", "three"], "--number was given 'three'", "invoke echo --help"),
        (["echo", "--number=-1"], "--number was given '-1'", "invoke echo --help"),
        (["echo", "--only", "unit,contarct"], "--only was given 'contarct'", "invoke echo --only unit,contract"),
        (["lab.ssh"], "lab.ssh was not told --host HOST", "invoke lab.ssh --host HOST"),
    ],
)
def test_refusals_name_what_was_meant(reader: Reader, words: list[str], found: str, next_step: str) -> None:
    error = refusal(reader, *words)

    assert found in error.found
    assert error.next_step == next_step
    assert error.needed
