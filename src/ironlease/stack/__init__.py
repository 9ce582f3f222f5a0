"""Stacks: tested sets of versions, one file each under ``stacks/``; the single source of every version."""

from __future__ import annotations

from pathlib import Path

from ironlease.errors import IronleaseError, UsageError, raise_all
from ironlease.finding import Finding
from ironlease.paths import Project
from ironlease.schema import YamlSource, edit_command, load_yaml, shown_path
from ironlease.stack import rules
from ironlease.stack.model import Stack
from ironlease.suggest import did_you_mean

__all__ = ["Stack", "load", "load_all", "names"]


def names(project: Project | None = None) -> list[str]:
    """Return the names of all stacks, sorted."""
    return sorted(path.stem for path in _folder(project).glob("*.yml"))


def load(name: str, project: Project | None = None) -> Stack:
    """Return the stack called ``name``, validated.

    Raises UsageError for an unknown name (with the nearest), for every mistake in the file, and for a stack that breaks
    a compatibility rule by itself.
    """
    known = names(project)
    if name not in known:
        raise UsageError(
            code="unknown-stack",
            found=f"There is no stack {name!r}.",
            needed=f"A stack under stacks/: {did_you_mean(name, known)}",
            next_step="invoke stacks",
        )
    return load_file(_folder(project) / f"{name}.yml")


def load_all(project: Project | None = None) -> list[Stack]:
    """Return all stacks by name; raises what :func:`load` raises."""
    return [load(name, project) for name in names(project)]


def load_file(path: Path) -> Stack:
    """Return the stack in ``path``; raises what :func:`load` raises."""
    stack = load_yaml(path, Stack)
    if stack.name != path.stem:
        raise _mistake(path, "name", f"the name {stack.name}", f"The file's own name, {path.stem}.")
    broken = [finding for finding in rules.check(stack, rules.Machine()) if finding.severity == "block"]
    raise_all([_broken_rule(path, finding) for finding in broken])
    return stack.read_from(path.read_bytes())


def _folder(project: Project | None) -> Path:
    return (project or Project.here()).stacks


def _mistake(path: Path, key: str, found: str, needed: str) -> UsageError:
    file, line = YamlSource(path).place((key,))
    return UsageError(code="bad-value", found=f"{file} has {found}.", needed=needed, next_step=edit_command(file, line))


def _broken_rule(path: Path, finding: Finding) -> IronleaseError:
    return UsageError(
        code=finding.code,
        found=f"{shown_path(path)}: {finding.found}",
        needed=finding.needed,
        next_step=finding.next_step,
    )
