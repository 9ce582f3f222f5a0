"""The help pages: one for the whole program, one for each task."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ironlease import __version__
from ironlease.cli.declaration import FlagArgument, Task
from ironlease.console import as_typed
from ironlease.errors import ExitCode
from ironlease.ops.result import Result

_WIDTH = 100
_MEANINGS = {
    ExitCode.OK: "done, and all is well",
    ExitCode.FAIL: "a verdict is fail",
    ExitCode.USAGE: "wrong usage or input; nothing was changed",
    ExitCode.UNREACHABLE: "a host could not be reached or not be trusted",
    ExitCode.UNFINISHED: "could not finish: run it again",
    ExitCode.UNKNOWN: "a verdict is unknown where a pass is needed",
    ExitCode.CRASH: "a crash of ours; the message says where the log is",
}


def overview(groups: Mapping[str, Sequence[Task]], flags: Iterable[FlagArgument]) -> Result:
    """Return the list of tasks, which is also the program's help page."""
    lines = [
        f"ironlease {__version__}: turns leased GPU servers into proved training machines",
        "",
        "  invoke TASK [--flag value ...]",
        "  invoke TASK --help",
    ]
    width = max(len(task.dotted_name) for tasks in groups.values() for task in tasks)
    for heading, tasks in groups.items():
        lines += ["", heading, *_columns([(task.dotted_name, task.summary) for task in tasks], width)]
    lines += ["", "Flags", *_flags(flags)]
    lines += ["", "Exit codes", *_exit_codes()]
    tasks_json = [_task_json(task, heading) for heading, tasks in groups.items() for task in tasks]
    return Result(data={"tasks": tasks_json}, lines=[as_typed(line) for line in lines])


def of_task(task: Task, groups: Mapping[str, Sequence[Task]], common: Iterable[FlagArgument]) -> Result:
    """Return the help page of one task; ``common`` are the flags that every task takes."""
    lines = [f"invoke {task.dotted_name}: {task.summary}"]
    if task.description:
        lines += ["", *textwrap.wrap(" ".join(task.description.split()), _WIDTH)]
    arguments = task.flags
    lines += ["", "Usage", f"  {_usage(task, arguments)}"]
    if arguments:
        lines += ["", "Flags", *_flags(arguments)]
    lines += ["", "Flags of every task", *_flags(common)]
    lines += ["", "Example", f"  {task.example}"]
    lines += ["", "Exit codes", *_exit_codes()]
    heading = next(heading for heading, tasks in groups.items() if task in tasks)
    return Result(data={"task": _task_json(task, heading)}, lines=[as_typed(line) for line in lines])


def version() -> Result:
    """Return the program's version."""
    return Result(data={"version": __version__}, lines=[f"ironlease {__version__}"])


def _usage(task: Task, arguments: Iterable[FlagArgument]) -> str:
    words = [f"invoke {task.dotted_name}"]
    for argument in arguments:
        word = f"--{argument.names[0]} {argument.flag.value}".rstrip()
        words.append(word if argument.required else f"[{word}]")
    return "\n    ".join(textwrap.wrap(" ".join(words), _WIDTH, break_on_hyphens=False, break_long_words=False))


def _flags(arguments: Iterable[FlagArgument]) -> list[str]:
    rows = []
    for argument in arguments:
        shorts = "".join(f", -{name}" for name in argument.nicknames if len(name) == 1)
        needed = " (needed)" if argument.required else ""
        rows.append((f"--{argument.names[0]}{shorts} {argument.flag.value}".rstrip(), argument.flag.help + needed))
    return _columns(rows)


def _exit_codes() -> list[str]:
    return _columns([(f"{int(code)}", meaning) for code, meaning in _MEANINGS.items()])


def _columns(rows: list[tuple[str, str]], width: int = 0) -> list[str]:
    width = max(width, *(len(left) for left, _ in rows))
    lines = []
    for left, right in rows:
        indent = f"  {left:<{width}}  "
        lines += textwrap.wrap(
            right,
            max(_WIDTH, width + 40),
            initial_indent=indent,
            subsequent_indent=" " * len(indent),
            break_on_hyphens=False,
            break_long_words=False,
        )
    return lines


def _task_json(task: Task, heading: str) -> dict[str, Any]:
    flags = [
        {
            "name": f"--{argument.names[0]}",
            "value": argument.flag.value or None,
            "needed": argument.required,
            "help": argument.flag.help,
        }
        for argument in task.flags
    ]
    return {
        "name": task.dotted_name,
        "group": heading,
        "summary": task.summary,
        "description": task.description,
        "flags": flags,
        "example": task.example,
    }
