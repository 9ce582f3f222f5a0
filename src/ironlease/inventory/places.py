"""Finds where in an inventory a variable of a host is written, for messages."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from ironlease.schema import Location, Source, edit_command, line_of, shown_path

_YAML_ENDINGS = {".yml", ".yaml"}


def yaml_files(path: Path) -> list[Path]:
    """Return the YAML files of an inventory: its own, then those in group_vars and host_vars beside them."""
    folder = path if path.is_dir() else path.parent
    own = sorted(file for file in folder.iterdir() if file.is_file()) if path.is_dir() else [path]
    for name in ("group_vars", "host_vars"):
        own.extend(sorted(file for file in (folder / name).rglob("*") if file.is_file()))
    return [file for file in own if file.suffix in _YAML_ENDINGS]


def list_command(path: Path, flag: str) -> str:
    """Return the command that shows the inventory as Ansible reads it, also where the environment is not active."""
    program = Path(sys.executable).with_name("ansible-inventory")
    return shlex.join([shown_path(program), "-i", shown_path(path), flag])


class InventorySource(Source):
    """Finds the file and line of a host's variable, looking at the host's own entry first."""

    def __init__(self, path: Path, host: str) -> None:
        super().__init__(shown_path(path))
        self._files = yaml_files(path)
        self._host = host

    def place(self, location: Location) -> tuple[str, int | None]:
        """Return the file and line of the variable at ``location``, or the inventory's name when it is not found."""
        candidates = [
            (self._rank(file, trail, location, node), shown_path(file), line_of(node, location))
            for file in self._files
            for trail, node in _mappings(_compose(file))
            if location and _value(node, str(location[0])) is not None
        ]
        if not candidates:
            return self.name, None
        _, file_name, line = max(candidates, key=lambda candidate: candidate[0])
        return file_name, line

    def _rank(self, file: Path, trail: tuple[str, ...], location: Location, node: yaml.MappingNode) -> tuple[bool, int]:
        own = any(_stands_for(name, self._host) for name in (*trail, file.stem, file.parent.name))
        return own, _depth(node, location)


def _stands_for(pattern: str, host: str) -> bool:
    """Return whether a key of an inventory, perhaps with a range such as ``node[1:8]``, can mean ``host``."""
    return re.fullmatch(re.sub(r"\\\[[^]]*\\\]", ".+", re.escape(pattern)), host) is not None


def _compose(file: Path) -> yaml.Node | None:
    try:
        return yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None


def _mappings(
    node: yaml.Node | None, trail: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], yaml.MappingNode]]:
    """Yield every mapping of a document with the keys that lead to it."""
    if isinstance(node, yaml.MappingNode):
        yield trail, node
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                yield from _mappings(value, (*trail, key.value))


def _value(node: yaml.Node, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _depth(node: yaml.Node, location: Location) -> int:
    """Return how many steps of ``location`` exist below ``node``."""
    for depth, step in enumerate(location):
        found = _value(node, str(step))
        if found is None:
            return depth
        node = found
    return len(location)


def edit(path: Path, host: str, variable: str) -> str:
    """Return the command that opens the inventory where ``variable`` of ``host`` is written."""
    return edit_command(*InventorySource(path, host).place((variable,)))
