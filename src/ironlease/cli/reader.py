"""Reads a command line strictly: what is not understood is refused, with the nearest thing that would have been.

invoke's own parser takes an unknown flag as the value of the flag before it and a second word as a second task; for a
program that changes machines, a typing mistake must never mean something else.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from invoke.parser.context import ParserContext

from ironlease import suggest
from ironlease.cli.declaration import FlagArgument
from ironlease.errors import UsageError


@dataclass
class CommandLine:
    """What was asked for: the task's name (None for the list of tasks), its flags, and the flags of every task."""

    task: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    common: dict[str, Any] = field(default_factory=dict)


class Reader:
    """Reads the words after the program's name.

    ``common`` holds the flags that are understood before and after any task, ``tasks`` the flags of each task.
    """

    def __init__(self, common: ParserContext, tasks: Mapping[str, ParserContext]) -> None:
        self._common = common
        self._tasks = tasks

    def read(self, words: Sequence[str]) -> CommandLine:
        """Return what ``words`` ask for; raise UsageError for the first that is not understood."""
        self._words = list(words)
        self._task: str | None = None
        self._given: dict[str, Any] = {}
        rest = iter(words)
        for word in rest:
            if word.startswith("-") and word != "-":
                self._take_flag(word, rest)
            elif self._task is None:
                self._take_task(word)
            else:
                raise self._stray(word)
        return self._finish()

    def _take_task(self, word: str) -> None:
        if word in self._tasks:
            self._task = word
            return
        group = [name for name in self._tasks if name.startswith(f"{word}.")]
        if group:
            raise UsageError(
                found=f"{word} is a group of tasks.",
                needed=f"One of its tasks: {', '.join(group)}.",
                next_step=f"invoke {group[0]} --help",
            )
        ends = [name for name in self._tasks if name.endswith(f".{word}")]
        close = ends or suggest.nearest(word, self._tasks)
        raise UsageError(
            found=f"There is no task {word!r}.",
            needed=f"A task; did you mean {' or '.join(close)}?" if close else "A task of `invoke --list`.",
            next_step=self._corrected(word, close[0]) if close else "invoke --list",
        )

    def _take_flag(self, word: str, rest: Iterator[str]) -> None:
        name, equals, value = word.partition("=")
        argument = self._argument(name)
        if argument.kind is bool:
            if equals:
                raise UsageError(
                    found=f"{name} was given the value {value!r}.",
                    needed=f"{name} alone: it takes no value.",
                    next_step=self._corrected(word, name),
                )
            self._given[argument.key] = True
            return
        if not equals:
            value = next(rest, "")
            if value.startswith("-") and value != "-":
                raise self._no_value(name, argument, f"is followed by {value}")
        if not value:
            raise self._no_value(name, argument, "has no value")
        self._keep(name, argument, self._convert(argument, name, value))

    def _keep(self, name: str, argument: FlagArgument, value: Any) -> None:
        if argument.is_list:
            before = self._given.get(argument.key, [])
            self._given[argument.key] = list(dict.fromkeys([*before, *value]))
        elif argument.key in self._given:
            raise UsageError(found=f"{name} was given twice.", needed=f"{name} once.", next_step=self._help_command())
        else:
            self._given[argument.key] = value

    def _argument(self, name: str) -> FlagArgument:
        for context in (self._task_context(), self._common):
            if context is not None and name in context.flags:
                argument: FlagArgument = context.flags[name]
                return argument
        if self._task is None and any(name in context.flags for context in self._tasks.values()):
            raise UsageError(
                found=f"{name} comes before the task that it is for.",
                needed="The task's name first, then its flags.",
                next_step="invoke --list",
            )
        known = [*self._common.flags, *(self._task_context() or self._common).flags]
        close = suggest.nearest(name, known)
        of = f"of {self._task}" if self._task else "of invoke"
        raise UsageError(
            found=f"There is no flag {name} {of}.",
            needed=f"A flag {of}; did you mean {' or '.join(close)}?" if close else f"A flag {of}.",
            next_step=self._corrected(name, close[0]) if close else self._help_command(),
        )

    def _finish(self) -> CommandLine:
        context = self._task_context()
        line = CommandLine(task=self._task, common=self._values(self._common))
        # A help page explains what is missing better than a refusal does.
        if context is not None and not line.common["help"]:
            self._check_required(context)
            line.options = self._values(context)
        return line

    def _check_required(self, context: ParserContext) -> None:
        missing = [
            argument for argument in context.args.values() if argument.required and argument.key not in self._given
        ]
        if missing:
            flags = " ".join(f"--{argument.names[0]} {argument.flag.value}" for argument in missing)
            raise UsageError(
                found=f"{self._task} was not told {flags}.",
                needed="; ".join(f"--{argument.names[0]}: {argument.flag.help}" for argument in missing) + ".",
                next_step=f"invoke {shlex.join(self._words)} {flags}",
            )

    def _values(self, context: ParserContext) -> dict[str, Any]:
        return {argument.key: self._given.get(argument.key, argument.default) for argument in context.args.values()}

    def _task_context(self) -> ParserContext | None:
        return None if self._task is None else self._tasks[self._task]

    def _stray(self, word: str) -> UsageError:
        if word in self._tasks:
            return UsageError(
                found=f"{word} is a second task after {self._task}.",
                needed="One task at a time.",
                next_step=f"invoke {self._task} && invoke {word}",
            )
        return UsageError(
            found=f"{self._task} does not take the word {word!r}.",
            needed="Flags; every value belongs to one.",
            next_step=self._help_command(),
        )

    def _no_value(self, name: str, argument: FlagArgument, what: str) -> UsageError:
        return UsageError(
            found=f"{name} {what}.",
            needed=f"{name} {argument.flag.value}: {argument.flag.help}.",
            next_step=self._help_command(),
        )

    def _corrected(self, wrong: str, right: str) -> str:
        """Return the command with the flag or value ``wrong`` written as ``right``."""
        words = []
        for word in self._words:
            flag, equals, value = word.partition("=")
            if word == wrong:
                words.append(right)
            elif equals and wrong in {flag, value}:
                words.append(f"{right}={value}" if wrong == flag else f"{flag}={right}")
            else:
                words.append(word)
        return f"invoke {shlex.join(words)}"

    def _help_command(self) -> str:
        return f"invoke {self._task} --help" if self._task else "invoke --help"

    def _convert(self, argument: FlagArgument, name: str, text: str) -> Any:
        """Return what ``text`` means; lists are split at their commas here and nowhere else."""
        if argument.is_list:
            parts = [part.strip() for part in text.split(",")]
            if not all(parts):
                raise UsageError(
                    found=f"{name} {text} has an empty entry.",
                    needed=f"{name} {argument.flag.value}.",
                    next_step=self._corrected(text, ",".join(filter(None, parts)) or argument.flag.value),
                )
            for part in parts:
                self._check_choice(argument, name, text, part)
            return parts
        if argument.kind is int:
            if not text.isdecimal():
                raise UsageError(
                    found=f"{name} was given {text!r}.",
                    needed=f"{name} {argument.flag.value}: a whole number, 0 or more.",
                    next_step=self._help_command(),
                )
            return int(text)
        self._check_choice(argument, name, text, text)
        return Path(text).expanduser() if argument.kind is Path else text

    def _check_choice(self, argument: FlagArgument, name: str, text: str, part: str) -> None:
        choices = argument.flag.choices
        if not choices or part in choices:
            return
        close = suggest.nearest(part, choices)
        raise UsageError(
            found=f"{name} was given {part!r}.",
            needed=f"{name} with any of {', '.join(choices)}.",
            next_step=self._corrected(text, text.replace(part, close[0])) if close else self._help_command(),
        )
