"""What the shell offers when the user presses the tab key.

The shells call ``invoke --complete WORD...`` with the words up to the cursor, the last of which may be empty; the
candidates are printed one a line. Nothing here may fail loudly or take long: a key press is no place for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from invoke.parser.context import ParserContext

from ironlease import suggest
from ironlease.cli.declaration import FlagArgument
from ironlease.errors import UsageError
from ironlease.paths import Project

SHELLS = ("bash", "fish", "zsh")


def script(shell: str) -> str:
    """Return the lines that make ``shell`` complete our commands; raise UsageError for a shell that has none."""
    if shell not in SHELLS:
        close = (suggest.nearest(shell, SHELLS) or SHELLS)[0]
        raise UsageError(
            found=f"There is no completion for the shell {shell!r}.",
            needed=f"One of {', '.join(SHELLS)}.",
            next_step=f"invoke --print-completion-script={close}",
        )
    return (Path(__file__).parent / "completions" / f"invoke.{shell}").read_text(encoding="utf-8").rstrip("\n")


def candidates(
    words: list[str], common: ParserContext, tasks: Mapping[str, ParserContext], project: Project
) -> list[str]:
    """Return what may stand in place of the last of ``words``."""
    *before, current = words or [""]
    # bash cuts `--host=lab1` into three words and replaces only the last; the other shells keep one word.
    if current == "=":
        before, current = [*before, "="], ""
    if len(before) >= 2 and before[-1] == "=":
        return _values(_argument(before[-2], before[:-2], common, tasks), current, project, "")
    context = _task(before, tasks)
    if current.startswith("-"):
        flag, equals, value = current.partition("=")
        if equals:
            return _values(_argument(flag, before, common, tasks), value, project, f"{flag}=")
        flags = {
            f"--{argument.names[0]}" for source in (context, common) if source for argument in source.args.values()
        }
        return sorted(name for name in flags if name.startswith(current) and name not in before)
    argument = _argument(before[-1], before[:-1], common, tasks) if before else None
    if argument is not None and argument.takes_value:
        return _values(argument, current, project, "")
    return sorted(name for name in tasks if name.startswith(current)) if context is None else []


def _task(words: list[str], tasks: Mapping[str, ParserContext]) -> ParserContext | None:
    return next((tasks[word] for word in words if word in tasks), None)


def _argument(
    flag: str, before: list[str], common: ParserContext, tasks: Mapping[str, ParserContext]
) -> FlagArgument | None:
    for context in (_task(before, tasks), common):
        if context is not None and flag in context.flags:
            argument: FlagArgument = context.flags[flag]
            return argument
    return None


def _values(argument: FlagArgument | None, current: str, project: Project, prefix: str) -> list[str]:
    if argument is None:
        return []
    source = _SOURCES.get(argument.flag.completes)
    known = list(argument.flag.choices) or (source(project, current) if source else [])
    if argument.is_list:
        done, comma, current = current.rpartition(",")
        prefix += done + comma
        known = [name for name in known if name not in done.split(",")]
    return sorted(prefix + name for name in known if name.startswith(current))


def _hosts(project: Project, current: str) -> list[str]:
    from ironlease.ops import inventories  # noqa: PLC0415 - YAML is only needed for these two

    return [
        host for name in _inventories(project, current) for host in inventories.host_names(project.inventories / name)
    ]


def _groups(project: Project, current: str) -> list[str]:
    from ironlease.ops import inventories  # noqa: PLC0415 - see above

    return [
        group
        for name in _inventories(project, current)
        for group in inventories.group_names(project.inventories / name)
    ]


def _inventories(project: Project, current: str) -> list[str]:
    from ironlease.ops import inventories  # noqa: PLC0415 - see above

    # The example's hosts do not exist.
    return [name for name in inventories.all_names(project) if name != inventories.EXAMPLE]


def _stacks(project: Project, current: str) -> list[str]:
    return [path.stem for path in project.stacks.glob("*.yml")]


def _runs(project: Project, current: str) -> list[str]:
    from ironlease import runs  # noqa: PLC0415 - only needed here

    return runs.names(project)


def _files(project: Project, current: str) -> list[str]:
    folder, slash, name = current.rpartition("/")
    try:
        entries = list(Path(folder or (slash or ".")).expanduser().iterdir())
    except OSError:
        return []
    shown = [entry for entry in entries if name.startswith(".") or not entry.name.startswith(".")]
    return [f"{folder}{slash}{entry.name}{'/' if entry.is_dir() else ''}" for entry in shown]


_SOURCES: dict[str, Callable[[Project, str], list[str]]] = {
    "hosts": _hosts,
    "groups": _groups,
    "inventories": lambda project, current: [*_inventories(project, current), *_files(project, current)],
    "stacks": _stacks,
    "runs": _runs,
    "files": _files,
}
