"""Reads YAML, and knows on which line a key was written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

try:  # libyaml's loader is ten times as fast; not every build of PyYAML has it
    from yaml import CSafeLoader as SafeLoader
except ImportError:
    from yaml import SafeLoader  # type: ignore[assignment]

from ironlease.errors import UsageError
from ironlease.schema.model import Location


class Source:
    """Where a value was written, for messages. The base class knows only a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def place(self, location: Location) -> tuple[str, int | None]:
        """Return the file (or another name) and the line, when known, of the key at ``location``."""
        del location
        return self.name, None


class YamlSource(Source):
    """A YAML file; lines are looked up only when there is something to say."""

    def __init__(self, path: Path) -> None:
        super().__init__(shown_path(path))
        self._path = path

    def place(self, location: Location) -> tuple[str, int | None]:
        """Return the file and the line of the key at ``location``, or of the nearest mapping around it."""
        node = yaml.compose(self._path.read_text(encoding="utf-8"), Loader=SafeLoader)
        return self.name, None if node is None else line_of(node, location)


def read_yaml(path: Path) -> Any:
    """Return the plain value of a YAML file; a key that is written twice is an error, not a silent loss.

    Raises UsageError when the file is missing, unreadable or no YAML.
    """
    return _parse(path, construct=True)


def check_yaml(path: Path) -> None:
    """Raise what :func:`read_yaml` would, but let tags such as ``!vault`` be: their meaning is another program's."""
    _parse(path, construct=False)


def _parse(path: Path, *, construct: bool) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(
            code="file-unreadable",
            found=f"{shown_path(path)} cannot be read: {reason}.",
            needed="A YAML file that you can read.",
            next_step=f"ls -l {shown_path(path)}",
        ) from error
    loader = SafeLoader(text)
    try:
        node = loader.get_single_node()
        _refuse_duplicates(node)
        return loader.construct_document(node) if construct and node is not None else None
    except yaml.YAMLError as error:
        raise _broken_yaml(path, error) from error
    finally:
        loader.dispose()


def _refuse_duplicates(node: yaml.Node | None) -> None:
    """Raise a YAML error for a key that is written twice in one mapping, at any depth."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_duplicates(item)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            _refuse_duplicates(value)
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is written twice", problem_mark=key.start_mark
                )
            seen.add(str(key.value))


def shown_path(path: Path) -> str:
    """Return ``path`` as a person would type it: relative to the current folder when it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def shown_place(file: str, line: int | None) -> str:
    """Return ``file:line``, as editors and terminals make it clickable."""
    return file if line is None else f"{file}:{line}"


def edit_command(file: str, line: int | None) -> str:
    """Return the command that opens ``file`` at ``line``."""
    return f"${{EDITOR:-vi}} {'' if line is None else f'+{line} '}{file}"


def line_of(node: yaml.Node, location: Location) -> int:
    """Return the line, from 1, of the key at ``location`` below ``node``, or of the nearest node around it."""
    line = node.start_mark.line
    for step in location:
        found = _child_node(node, step)
        if found is None:
            break
        line, node = found
    return line + 1


def _child_node(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark.line, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    return None


def _broken_yaml(path: Path, error: yaml.YAMLError) -> UsageError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    line = None if mark is None else mark.line + 1
    return UsageError(
        code="yaml-broken",
        found=f"{shown_place(shown_path(path), line)}: not valid YAML: {problem}.",
        needed="Valid YAML.",
        next_step=edit_command(shown_path(path), line),
    )
