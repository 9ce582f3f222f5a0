"""How tasks.py declares a task: a function whose annotated parameters are its flags.

    @task(example="invoke stacks --stack torch-cpu")
    def stacks(context: Context, stack: StackName = None) -> Result:
        \"\"\"List the stacks and their versions.\"\"\"

A parameter without a default is a flag that must be given. The first line of the docstring is the line in the list of
tasks, the rest is the body of the task's help page.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from invoke.collection import Collection
from invoke.parser.argument import Argument
from invoke.tasks import Task as InvokeTask

from ironlease.ops.result import Result

Body = Callable[..., Result]

# What a task needs that works on hosts: the tools to reach them, and to boot them when they are lab hosts.
HOSTS = "hosts"


@dataclass(frozen=True)
class Flag:
    """What a flag means to a person.

    ``value`` names the value on the help page; ``completes`` says what the shell offers for it: hosts, groups, stacks,
    runs, inventories or files; ``choices`` are the only values allowed.
    """

    help: str
    value: str = ""
    completes: str = ""
    choices: tuple[str, ...] = ()


# The flags that many tasks share.
Hosts = Annotated[Sequence[str], Flag("the hosts, separated by commas", value="HOST[,HOST...]", completes="hosts")]
OneHost = Annotated[str, Flag("the host", value="HOST", completes="hosts")]
Group = Annotated[str | None, Flag("all hosts of this inventory group", value="GROUP", completes="groups")]
StackName = Annotated[
    str | None, Flag("the stack to use instead of the inventory's", value="STACK", completes="stacks")
]


class FlagArgument(Argument):
    """An invoke argument that knows its own meaning, and whether it takes a list."""

    def __init__(
        self,
        name: str,
        kind: type,
        flag: Flag,
        *,
        default: Any = None,
        is_list: bool = False,
        required: bool = False,
        short: str = "",
    ) -> None:
        names = (name.replace("_", "-"), *short)
        super().__init__(names=names, attr_name=name, kind=kind, default=default, help=flag.help)
        self.key = name
        self.flag = flag
        self.is_list = is_list
        self.required = required


class Task(InvokeTask[Body]):
    """An invoke task whose flags come from annotations; the names are dotted."""

    def __init__(self, body: Body, *, name: str, example: str, needs: Sequence[str]) -> None:
        super().__init__(body, name=name, auto_shortflags=False)
        self.dotted_name = name
        self.example = example
        self.needs = tuple(needs)

    @property
    def summary(self) -> str:
        """The one line in the list of tasks."""
        return (inspect.getdoc(self.body) or "").partition("\n")[0]

    @property
    def description(self) -> str:
        """The rest of the docstring."""
        return (inspect.getdoc(self.body) or "").partition("\n")[2].strip()

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        """Return one argument for each parameter after the context, in their order."""
        hints = typing.get_type_hints(self.body, include_extras=True)
        parameters = list(inspect.signature(self.body).parameters.values())[1:]
        return [_argument(parameter, hints[parameter.name]) for parameter in parameters]

    @property
    def flags(self) -> list[FlagArgument]:
        """The task's own flags, in their order."""
        return [argument for argument in self.get_arguments() if isinstance(argument, FlagArgument)]


def task(*, example: str, name: str = "", needs: Sequence[str] = ()) -> Callable[[Body], Task]:
    """Declare a task.

    ``name`` is the dotted name, by default the function's. ``needs`` names the groups of system tools that must be
    there before the body runs, see :mod:`ironlease.system_packages`, or is :data:`HOSTS`.
    """

    def declare(body: Body) -> Task:
        return Task(body, name=name or body.__name__.replace("_", "-"), example=example, needs=needs)

    return declare


def namespace_of(groups: Mapping[str, Sequence[Task]]) -> Collection:
    """Return invoke's namespace of tasks that are given by the headings of the help page."""
    root = Collection()
    for tasks in groups.values():
        for one in tasks:
            group, _, leaf = one.dotted_name.rpartition(".")
            if not group:
                root.add_task(one)
                continue
            if group not in root.collections:
                root.add_collection(Collection(group))
            root.collections[group].add_task(one, name=leaf)
    return root


def _argument(parameter: inspect.Parameter, hint: Any) -> FlagArgument:
    annotated, flag = typing.get_args(hint)
    # The one type in `Sequence[str]`, in `int | None` and in `bool`.
    (kind,) = [kind for kind in typing.get_args(annotated) or (annotated,) if kind is not type(None)]
    required = parameter.default is inspect.Parameter.empty
    return FlagArgument(
        parameter.name,
        kind,
        flag,
        default=None if required else parameter.default,
        is_list=typing.get_origin(annotated) is Sequence,
        required=required,
    )
