"""What people see, and what stays out of it."""

import io
import json
import os
import pty
import re
import select
import sys
import time
from collections.abc import Iterator

import pytest

from ironlease import redact
from ironlease.console import Console, Table, as_typed
from ironlease.errors import CombinedError, UnreachableError, UsageError


class Streams:
    def __init__(self, **options: object) -> None:
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(stdout=self.out, stderr=self.err, **options)


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(redact, "_secrets", set())
    redact.register("hunter22")
    return "hunter22"


def test_results_and_notes_go_different_ways() -> None:
    plain, machine = Streams(), Streams(json_mode=True)
    for streams in (plain, machine):
        streams.console.line("a result")
        streams.console.table(Table(("host",), [("node1",)]))
        streams.console.note("a note")
        streams.console.warn("careful")

    assert "a result" in plain.out.getvalue()
    assert plain.err.getvalue() == "a note\nwarning: careful\n"
    assert machine.out.getvalue() == ""
    assert "node1" in machine.err.getvalue()


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\x1b]0;title\x07b", r"a\x1b]0;title\x07b"),
        ("a\x9b31mb", r"a\x9b31mb"),
        ("a\rb", r"a\rb"),
        ("a\u202eb", r"a\u202eb"),
    ],
)
def test_the_words_of_a_host_are_shown_and_do_not_steer_the_terminal(given: str, shown: str) -> None:
    streams = Streams()
    streams.console.line(given)
    streams.console.table(Table(("word",), [(given,)]))
    streams.console.note(given)
    streams.console.error(UsageError(found=given, needed=given, next_step=given, host="h"))
    with streams.console.progress(["h"]) as progress:
        progress.update("h", role=given)

    assert streams.out.getvalue().count(shown) == 2
    assert streams.err.getvalue().count(shown) == 5
    assert not set(streams.out.getvalue() + streams.err.getvalue()) & set(given) - set(shown)


def test_other_text_is_shown_as_it_is() -> None:
    streams = Streams()
    streams.console.note("prüf ☂\r\n\tb")

    assert streams.err.getvalue().expandtabs() == "prüf ☂\n        b\n"


def test_no_secret_gets_out(secret: str) -> None:
    streams = Streams(json_mode=True)
    streams.console.line(f"it is {secret}")
    streams.console.table(Table(("word",), [(secret,)]))
    streams.console.error(UsageError(found=secret, needed=secret, next_step=f"say {secret}"))
    streams.console.json_object({secret: [secret]})
    with streams.console.progress(["node1"]) as progress:
        progress.update("node1", role=f"role-{secret}")

    assert secret not in streams.out.getvalue() + streams.err.getvalue()


def test_an_error_has_its_three_parts_and_its_host() -> None:
    streams = Streams()
    errors = [
        UsageError(found="a", needed="b", next_step="invoke stacks"),
        UnreachableError(found="no answer", needed="d", next_step="e", host="node2"),
        UnreachableError(found="node3 is silent", needed="d", next_step="e", host="node3"),
    ]
    streams.console.error(CombinedError(errors))

    blocks = streams.err.getvalue().split("\n\n")
    assert blocks[0] == "found:  a\nneeded: b\nnext:   invoke stacks"
    assert blocks[1].startswith("found:  node2: no answer\n")
    assert blocks[2].startswith("found:  node3 is silent\n")


def test_a_long_line_stays_one_line_and_square_brackets_are_only_text() -> None:
    streams = Streams()
    text = "[bold]" + "x" * 500 + " :smile: [/bold]"
    streams.console.line(text)

    assert streams.out.getvalue() == text + "\n"


def test_without_a_terminal_a_table_is_as_wide_as_it_needs() -> None:
    streams = Streams()
    streams.console.table(Table(("host", "why"), [("node1", "word " * 25)]))

    assert f"node1   {'word ' * 25}".rstrip() in streams.out.getvalue()


def test_json_is_one_line_in_ascii() -> None:
    streams = Streams(json_mode=True)
    streams.console.json_object({"name": "机器"})

    assert streams.out.getvalue().isascii()
    assert json.loads(streams.out.getvalue()) == {"name": "机器"}
    assert streams.out.getvalue().count("\n") == 1


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("invoke stacks", "./invoke stacks"),
        ("Run invoke enrol --host a, then invoke plan.", "Run ./invoke enrol --host a, then ./invoke plan."),
        ("./invoke stacks", "./invoke stacks"),
        ("`invoke --list`", "`./invoke --list`"),
        ("/opt/x/invoke stacks", "/opt/x/invoke stacks"),
        ("to invoke the roles", "to ./invoke the roles"),
        ("revoke it", "revoke it"),
    ],
)
def test_our_commands_are_shown_as_they_were_typed(monkeypatch: pytest.MonkeyPatch, text: str, typed: str) -> None:
    monkeypatch.setenv("IRONLEASE_COMMAND", "./invoke")
    assert as_typed(text) == typed

    monkeypatch.setenv("IRONLEASE_COMMAND", "my folder/invoke")
    assert as_typed("invoke stacks") == "'my folder/invoke' stacks"

    streams = Streams()
    streams.console.warn("do invoke stacks")
    assert "'my folder/invoke' stacks" in streams.err.getvalue()

    monkeypatch.delenv("IRONLEASE_COMMAND")
    assert as_typed(text) == text


def test_without_a_person_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    console = Streams().console

    assert console.interactive is False
    assert console.confirm("Sure?", default=True) is False
    assert console.ask("Name?", "fleet") == "fleet"
    with pytest.raises(EOFError):
        console.password("Password?")


class Person:
    """Sits at the other end of a terminal."""

    def __init__(self) -> None:
        self._end, end = pty.openpty()
        self.keys = os.fdopen(os.dup(end), "r", encoding="utf-8")
        self.screen = os.fdopen(end, "w", encoding="utf-8")

    def types(self, text: str) -> None:
        os.write(self._end, text.encode())

    def sees(self) -> str:
        seen = b""
        while select.select([self._end], [], [], 0.2)[0]:
            seen += os.read(self._end, 65536)
        return seen.decode()

    def leaves(self) -> None:
        self.keys.close()
        self.screen.close()
        os.close(self._end)


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    somebody = Person()
    monkeypatch.setattr(sys, "stdin", somebody.keys)
    yield somebody
    somebody.leaves()


@pytest.mark.parametrize(("answer", "default", "agreed"), [("y", False, True), ("", True, True), ("nope", True, False)])
def test_a_person_is_asked(person: Person, answer: str, default: bool, agreed: bool) -> None:
    person.types(f"{answer}\n")

    assert Console(stdout=person.screen, stderr=person.screen).confirm("Sure?", default=default) is agreed
    assert f"Sure? {'[Y/n]' if default else '[y/N]'}" in person.sees()


def test_the_end_of_the_input_is_no_answer(person: Person) -> None:
    person.types("\x04")

    with pytest.raises(UsageError) as refused:
        Console(stdout=person.screen, stderr=person.screen).ask("Name?", "fleet")
    assert refused.value.code == "no-answer"


@pytest.mark.parametrize(
    ("color", "variables", "coloured"), [(None, {}, True), (False, {}, False), (None, {"NO_COLOR": "1"}, False)]
)
def test_colours_are_left_out_where_they_are_not_wanted(
    person: Person, monkeypatch: pytest.MonkeyPatch, color: bool | None, variables: dict[str, str], coloured: bool
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    console = Console(color=color, stdout=person.screen, stderr=person.screen)
    console.table(Table(("verdict",), [("pass",), ("skipped(no GPU)",)]))

    assert ("\x1b[32mpass" in person.sees()) is coloured
    assert console.color is coloured


def test_progress_moves_on_a_terminal_and_leaves_nothing_behind(person: Person) -> None:
    console = Console(stdout=person.screen, stderr=person.screen)
    with console.progress(["node1", "node2"]) as progress:
        progress.update("node1", role="pytorch", task="install | A name " + "x" * 300, changed=3)
        progress.update("node2", state="failed")
        time.sleep(0.6)
        moving = person.sees()
    gone = person.sees()

    for part in ("node1", "running", "3 changed", "pytorch", "…", "failed"):
        assert part in moving
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", moving).splitlines()) <= 80
    # Each line is erased again.
    assert gone.count("\x1b[2K") >= 2


def test_progress_is_a_line_for_each_role_elsewhere() -> None:
    streams = Streams()
    with streams.console.progress(["node1"]) as progress:
        progress.update("node1", role="host_base", task="one")
        progress.update("node1", role="host_base", task="two", changed=1)
        progress.update("node1", role="pytorch", task="three")
        progress.update("node1", state="done", changed=2)
        progress.update("node9", state="failed")

    assert streams.err.getvalue().splitlines() == [
        "node1: host_base",
        "node1: pytorch",
        "node1: done after 0:00, 2 changed",
        "node9: failed after 0:00, 0 changed",
    ]
    assert streams.out.getvalue() == ""
