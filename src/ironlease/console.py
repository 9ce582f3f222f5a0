"""Everything that people see: lines, tables, questions, progress. The only module that imports rich.

Results go to stdout and everything else to stderr; with ``--json`` stdout belongs to the one JSON object, and what is
for people goes to stderr as well. Every text is scrubbed of secrets here, and of what would steer the terminal.
"""

from __future__ import annotations

import getpass
import io
import json
import os
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import IO, Any, Protocol, Self, TextIO

from rich import box
from rich.console import Console as RichConsole
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from ironlease import redact
from ironlease.errors import CombinedError, IronleaseError, UsageError

# Without a terminal there is no width to respect; a table this wide fits every column that we print.
_PLAIN_WIDTH = 200
_REFRESHES_PER_SECOND = 4
_WORD_STYLES = {
    "pass": "green",
    "yes": "green",
    "done": "green",
    "warn": "yellow",
    "fail": "bold red",
    "failed": "bold red",
    "unknown": "magenta",
    "skipped": "dim",
    "waiting": "dim",
}
# What makes a terminal do something instead of showing something: control characters, and marks that turn the writing
# direction. A host's words may hold them, by accident or to paint over what we say.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
# A command of ours inside a sentence: not part of a longer word or a path.
_OUR_COMMAND = re.compile(r"(?<![\w./-])(?:\./)?invoke (?=[a-z-]|TASK)")


@dataclass(frozen=True)
class Table:
    """Rows under headings; a cell that begins with a verdict word is coloured."""

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    title: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the table for a run folder."""
        return {"columns": list(self.columns), "rows": [list(row) for row in self.rows], "title": self.title}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Table:
        """Return the table that :meth:`to_json` described."""
        return cls(tuple(document["columns"]), [tuple(row) for row in document["rows"]], document["title"])


def as_typed(text: str) -> str:
    """Return ``text`` with our own commands written as this user can type them (``./invoke`` outside of the venv)."""
    typed = os.environ.get("IRONLEASE_COMMAND")
    return _OUR_COMMAND.sub(lambda _: f"{shlex.quote(typed)} ", text) if typed else text


def _shown(text: str) -> str:
    """Return ``text`` as a terminal may have it: without secrets, and with control characters spelled out."""
    text = redact.scrub(text).replace("\r\n", "\n")
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


class Console:
    """The terminal, or what takes its place.

    ``color`` False removes colours; None leaves it to the terminal and to ``NO_COLOR``. The attribute of that name says
    whether colours are wanted where they are possible.
    """

    def __init__(
        self,
        *,
        json_mode: bool = False,
        color: bool | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self.json_mode = json_mode
        self.color = color is not False and not os.environ.get("NO_COLOR")
        # Python has None where a stream was closed by the caller.
        self._stdout = stdout or sys.stdout or io.StringIO()
        self._stderr = stderr or sys.stderr or io.StringIO()
        no_color = True if color is False else None
        self._notes = _rich_console(self._stderr, no_color)
        self._results = self._notes if json_mode else _rich_console(self._stdout, no_color)

    @property
    def interactive(self) -> bool:
        """Whether there is a person who can be asked."""
        return sys.stdin is not None and sys.stdin.isatty() and self._stderr.isatty()

    def line(self, text: str = "", style: str = "") -> None:
        """Print one line of a result."""
        _print(self._results, text, style)

    def note(self, text: str) -> None:
        """Tell what is going on; never part of a result."""
        _print(self._notes, as_typed(text))

    def warn(self, text: str) -> None:
        """Say what deserves attention although the work goes on."""
        _print(self._notes, f"warning: {as_typed(text)}", "yellow")

    def table(self, table: Table) -> None:
        """Print a table as part of a result."""
        rendered = RichTable(
            box=box.SIMPLE_HEAD,
            title=table.title or None,
            title_justify="left",
            title_style="bold",
            pad_edge=False,
            show_edge=False,
        )
        for heading in table.columns:
            rendered.add_column(heading, overflow="fold")
        for row in table.rows:
            rendered.add_row(*(_cell(text) for text in row))
        self._results.print(rendered)

    def error(self, error: IronleaseError) -> None:
        """Print an error's three parts; a combined one prints each of its errors."""
        errors = error.errors if isinstance(error, CombinedError) else [error]
        for number, one in enumerate(errors):
            if number:
                self.note("")
            found = one.found if not one.host or one.host in one.found else f"{one.host}: {one.found}"
            for label, text, style in (
                ("found:", found, "bold red"),
                ("needed:", as_typed(one.needed), "bold"),
                ("next:", as_typed(one.next_step), "bold"),
            ):
                line = Text.assemble((f"{label:<8}", style), _shown(text))
                self._notes.print(line, soft_wrap=True)

    def json_object(self, value: dict[str, Any]) -> None:
        """Print the one JSON object; in ASCII, so that no locale can spoil it."""
        try:
            self._stdout.write(json.dumps(redact.scrub_value(value)) + "\n")
            self._stdout.flush()
        except BrokenPipeError:
            _write_nowhere(self._stdout)

    def confirm(self, question: str, *, default: bool = False) -> bool:
        """Ask for yes or no; without a person to ask, the answer is no."""
        if not self.interactive:
            return False
        answer = self.ask(f"{question} {'[Y/n]' if default else '[y/N]'}").casefold()
        return default if not answer else answer in {"y", "yes"}

    def ask(self, question: str, default: str = "") -> str:
        """Ask for a line of text; an empty answer, or no person to ask, gives ``default``.

        Raises UsageError when the input ends (Ctrl-D).
        """
        if not self.interactive:
            return default
        hint = f" [{default}]" if default else ""
        self._stderr.write(_shown(f"{question}{hint} "))
        self._stderr.flush()
        answer = sys.stdin.readline()
        if not answer:
            raise _no_answer(question)
        return answer.strip() or default

    def password(self, question: str) -> str:
        """Ask for a secret, which is not echoed and is masked in everything printed from now on.

        Raises EOFError when there is no person to ask, and UsageError when the input ends (Ctrl-D).
        """
        if not self.interactive:
            raise EOFError("no terminal to ask for a password on")
        try:
            secret = getpass.getpass(f"{question} ", stream=self._stderr)
        except EOFError as error:
            raise _no_answer(question) from error
        redact.register(secret)
        return secret

    def progress(self, hosts: Iterable[str], *, verb: str = "changed") -> Progress:
        """Return a display of what each host is doing, to be used in a ``with`` block.

        ``verb`` says what is counted: things changed, or things that would change.
        """
        lines = {host: _HostLine(verb) for host in hosts}
        if self._notes.is_terminal and not self._notes.is_dumb_terminal:
            return _LiveProgress(self._notes, lines, verb)
        return _PlainProgress(self.note, lines, verb)


class Progress(Protocol):
    """What each host is doing. Updates may come from any thread."""

    def __enter__(self) -> Self:
        """Begin to show."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the terminal as it was."""
        ...

    def update(
        self,
        host: str,
        *,
        role: str | None = None,
        task: str | None = None,
        changed: int | None = None,
        state: str | None = None,
    ) -> None:
        """Tell what ``host`` does now; what is None stays. ``state`` is waiting, running, done or failed."""
        ...


@dataclass
class _HostLine:
    verb: str
    role: str = ""
    task: str = ""
    changed: int = 0
    state: str = "waiting"
    started: float | None = None
    ended: float | None = None

    def take(self, role: str | None, task: str | None, changed: int | None, state: str | None) -> None:
        now = time.monotonic()
        self.started = now if self.started is None else self.started
        self.state = state or ("running" if self.state == "waiting" else self.state)
        self.ended = now if self.state in {"done", "failed"} else None
        if role is not None:
            self.role, self.task = role, ""
        self.task = self.task if task is None else task
        self.changed = self.changed if changed is None else changed

    def words(self, host: str) -> tuple[str, ...]:
        changed = f"{self.changed} {self.verb}" if self.changed else ""
        return tuple(_shown(word) for word in (host, self.state, self.elapsed(), changed, self.role, self.task))

    def elapsed(self) -> str:
        if self.started is None:
            return ""
        seconds = int((self.ended or time.monotonic()) - self.started)
        return f"{seconds // 60}:{seconds % 60:02d}"


class _LiveProgress:
    """One moving line for each host; gone when the work is done, because the summary follows."""

    def __init__(self, console: RichConsole, lines: dict[str, _HostLine], verb: str) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._hosts = lines
        self._verb = verb
        self._live = Live(
            console=console,
            get_renderable=self._render,
            refresh_per_second=_REFRESHES_PER_SECOND,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def update(
        self,
        host: str,
        *,
        role: str | None = None,
        task: str | None = None,
        changed: int | None = None,
        state: str | None = None,
    ) -> None:
        with self._lock:
            self._hosts.setdefault(host, _HostLine(self._verb)).take(role, task, changed, state)

    def _render(self) -> Text:
        order = {"failed": 0, "running": 1, "waiting": 2, "done": 3}
        with self._lock:
            lines = sorted(self._hosts.items(), key=lambda item: order.get(item[1].state, 1))
            rows = [line.words(host) for host, line in lines]
        # The last column needs no padding: behind it there is nothing to line up.
        widths = [*(max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)), 0] if rows else []
        shown = []
        for row in rows:
            text = Text("  ").join(
                Text(word.ljust(width), style=_style_of(word)) for word, width in zip(row, widths, strict=True)
            )
            text.truncate(self._console.width, overflow="ellipsis")
            shown.append(text)
        return Text("\n").join(shown)


class _PlainProgress:
    """A line when a host comes to another role or ends: enough to follow, not too much for a log."""

    def __init__(self, say: Callable[[str], None], lines: dict[str, _HostLine], verb: str) -> None:
        self._say = say
        self._lock = threading.Lock()
        self._hosts = lines
        self._verb = verb

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def update(
        self,
        host: str,
        *,
        role: str | None = None,
        task: str | None = None,
        changed: int | None = None,
        state: str | None = None,
    ) -> None:
        with self._lock:
            line = self._hosts.setdefault(host, _HostLine(self._verb))
            before = (line.role, line.state)
            line.take(role, task, changed, state)
            if before == (line.role, line.state):
                return
            if line.state == "running":
                self._say(f"{host}: {line.role or 'started'}")
            else:
                self._say(f"{host}: {line.state} after {line.elapsed()}, {line.changed} {line.verb}")


class _QuietConsole(RichConsole):
    """Goes on in silence when the reader went away (`invoke stacks | head -1`): the work's exit code stays true."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _write_nowhere(self.file)


def _no_answer(question: str) -> UsageError:
    return UsageError(
        code="no-answer",
        found=f"The input ended at the question {question!r}.",
        needed="An answer, or the flag that gives it.",
        next_step="Run the same command again, with --help to see its flags.",
    )


def _write_nowhere(stream: IO[str]) -> None:
    """Let the stream's next writes, and Python's own flush at its end, go to /dev/null."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _rich_console(stream: TextIO, no_color: bool | None) -> RichConsole:
    width = None if stream.isatty() else _PLAIN_WIDTH
    return _QuietConsole(file=stream, no_color=no_color, highlight=False, emoji=False, markup=False, width=width)


def _print(console: RichConsole, text: str, style: str = "") -> None:
    # soft_wrap: a long line stays one line, so that a command or a path in it can be copied.
    console.print(Text(_shown(text), style=style), soft_wrap=True)


def _cell(text: str) -> Text:
    return Text(_shown(text), style=_style_of(text))


def _style_of(text: str) -> str:
    return _WORD_STYLES.get(re.split(r"[^a-z]", text, maxsplit=1)[0], "")
