"""The ``invoke`` command: invoke's Program, with a command line and outcomes of our own."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NoReturn

from invoke.collection import Collection
from invoke.parser.argument import Argument
from invoke.parser.context import ParserContext
from invoke.program import Program as InvokeProgram

from ironlease import __version__, redact
from ironlease.cli import completion, pages
from ironlease.cli.declaration import Flag, FlagArgument, Task
from ironlease.cli.delivery import deliver, guarded, interrupt_on_signals, reserved_stdout
from ironlease.cli.execution import execute
from ironlease.cli.reader import CommandLine, Reader
from ironlease.console import Console
from ironlease.ops.context import Context
from ironlease.ops.result import Result
from ironlease.paths import Project
from ironlease.runs import RunFolder

COMPLETE = "--complete"


def flags_of_every_task() -> list[FlagArgument]:
    """Return the flags that every task takes, before or after its name."""
    return [
        FlagArgument("json", bool, Flag("print one JSON object on stdout, everything else on stderr"), default=False),
        FlagArgument("no_color", bool, Flag("print without colours, as with NO_COLOR=1"), default=False),
        FlagArgument(
            "inventory",
            str,
            Flag("the inventory: a path, or a name under inventories/", value="INVENTORY", completes="inventories"),
        ),
        FlagArgument("debug", bool, Flag("show log messages, and the traceback of a crash"), default=False),
        FlagArgument("help", bool, Flag("explain the task"), default=False, short="h"),
    ]


def flags_of_the_program() -> list[FlagArgument]:
    """Return the flags that stand for a task."""
    return [
        FlagArgument("list", bool, Flag("list the tasks"), default=False, short="l"),
        FlagArgument("version", bool, Flag("print the version"), default=False, short="V"),
        FlagArgument(
            "print_completion_script",
            str,
            Flag("print what lets a shell complete tasks, flags, hosts, stacks and runs", value="bash|fish|zsh"),
        ),
    ]


class Program(InvokeProgram):
    """Runs one task of ``tasks.py``, or explains it.

    What invoke's own command line has besides (configuration files, dry runs, echoing, several tasks at once) has no
    meaning here and is refused like any unknown flag.
    """

    def __init__(self, project: Project, tasks: ModuleType) -> None:
        super().__init__(name="ironlease", binary="invoke", version=__version__, namespace=tasks.namespace)
        self._project = project
        self._tasks: Collection = tasks.namespace
        self._groups: Mapping[str, Sequence[Task]] = tasks.GROUPS

    def core_args(self) -> list[Argument]:
        """Return all flags that are not a task's own."""
        return [*flags_of_every_task(), *flags_of_the_program()]

    def run(self, argv: list[str] | None = None, exit: bool = True) -> None:  # noqa: A002 - invoke's own name
        """Do what ``argv`` asks for, and end the process with the exit code unless ``exit`` is False."""
        self.normalize_argv(argv)
        words = self.argv[1:]
        code = self._complete(words[1:]) if words[:1] == [COMPLETE] else self._answer(words)
        if exit:
            sys.exit(code)

    def _contexts(self) -> dict[str, ParserContext]:
        return {str(context.name): context for context in self._tasks.to_contexts()}

    def _complete(self, words: list[str]) -> int:
        for candidate in completion.candidates(words, self.initial_context, self._contexts(), self._project):
            sys.stdout.write(f"{candidate}\n")
        return 0

    def _answer(self, words: list[str]) -> int:
        # Looked for before the line is read, because the refusal of a line obeys them too.
        debug, json_mode = "--debug" in words, "--json" in words
        _set_up_logging(debug=debug)
        with reserved_stdout(reserved=json_mode) as stdout:
            color = False if "--no-color" in words else None
            console = Console(json_mode=json_mode, color=color, stdout=stdout)
            result = guarded(
                lambda: self._result(words, console), lambda: RunFolder.create(self._project, "invoke"), debug=debug
            )
            return deliver(console, result)

    def _result(self, words: list[str], console: Console) -> Result:
        line = Reader(self.initial_context, self._contexts()).read(words)
        if line.common["print_completion_script"]:
            return Result(lines=[completion.script(line.common["print_completion_script"])])
        if line.common["version"]:
            return pages.version()
        if line.task is None or line.common["list"]:
            return pages.overview(self._groups, [*flags_of_every_task(), *flags_of_the_program()])
        task: Task = self._tasks[line.task]
        if line.common["help"]:
            return pages.of_task(task, self._groups, flags_of_every_task())
        return execute(task, line.options, self._context(line, console))

    def _context(self, line: CommandLine, console: Console) -> Context:
        return Context(
            command=line.task or "invoke",
            console=console,
            project=self._project,
            inventory=line.common["inventory"],
            json=line.common["json"],
            debug=line.common["debug"],
        )


def main() -> NoReturn:
    """Run the program on the process's own command line."""
    interrupt_on_signals()
    project = Project.here()
    Program(project, _load_tasks(project)).run()
    raise AssertionError("run() ends the process")


def _load_tasks(project: Project) -> ModuleType:
    """Return the project's tasks.py, wherever the user stands: it lies beside the package, not in it."""
    spec = importlib.util.spec_from_file_location("ironlease_tasks", project.root / "tasks.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"{project.root}/tasks.py")
    module = importlib.util.module_from_spec(spec)
    # Known by name, so that the annotations in it can be resolved.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class _ScrubbedFormatter(logging.Formatter):
    """Libraries log what they were given, secrets included."""

    def format(self, record: logging.LogRecord) -> str:
        return redact.scrub(super().format(record))


def _set_up_logging(*, debug: bool) -> None:
    if debug:
        handler = logging.StreamHandler()
        handler.setFormatter(_ScrubbedFormatter("%(asctime)s %(name)s: %(message)s"))
        logging.basicConfig(level=logging.DEBUG, handlers=[handler])
    else:
        # Otherwise Python prints the warnings of libraries, in the middle of our own words.
        logging.getLogger().addHandler(logging.NullHandler())
