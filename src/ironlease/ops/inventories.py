"""Which inventory a command means, when the user did not say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from ironlease import suggest
from ironlease.errors import UsageError
from ironlease.paths import Project

LAB = "lab"
EXAMPLE = "example"
VARIABLE = "IRONLEASE_INVENTORY"
# A typing mistake in a range must not make millions of names.
_MAX_RANGE = 4096
# libyaml's loader is ten times as fast, which a completion of 64 hosts feels; not every build of PyYAML has it.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def choose(project: Project, given: str | None, hosts: list[str], environment: Mapping[str, str] = os.environ) -> Path:
    """Return the inventory of a command that names ``hosts``.

    ``given`` (``--inventory``: a path, or a name under inventories/) decides. Without it: the lab's, when all of the
    hosts are lab hosts; ``$IRONLEASE_INVENTORY``; the only one that the user made, or the only one of them that has all
    of the hosts; the lab's, when the user made none and named no host. Raises UsageError when none of these gives one
    inventory.
    """
    if given:
        return _existing(project, given, "--inventory")
    lab = project.inventories / LAB
    if hosts and set(hosts) <= set(host_names(lab)):
        return lab
    if environment.get(VARIABLE):
        return _existing(project, environment[VARIABLE], f"${VARIABLE}")
    own = own_names(project)
    if len(own) == 1:
        return project.inventories / own[0]
    if own:
        holding = [name for name in own if hosts and set(hosts) <= set(host_names(project.inventories / name))]
        if len(holding) == 1:
            return project.inventories / holding[0]
        raise UsageError(
            code="which-inventory",
            found=f"There are {len(own)} inventories: {', '.join(own)}.",
            needed="One of them.",
            next_step=f"Run the command again with --inventory {(holding or own)[0]}, or set {VARIABLE}.",
        )
    if not hosts and lab.exists():
        return lab
    raise UsageError(
        code="no-inventory",
        found=_unknown_hosts(lab, hosts),
        needed=f"An inventory that has it ({_lab_hosts(lab)} need none).",
        next_step="invoke init",
    )


def own_names(project: Project) -> list[str]:
    """Return the names of the inventories that the user made."""
    return [name for name in all_names(project) if name not in {LAB, EXAMPLE}]


def all_names(project: Project) -> list[str]:
    """Return the names of everything under inventories/."""
    if not project.inventories.is_dir():
        return []
    return sorted(entry.name for entry in project.inventories.iterdir() if not entry.name.startswith("."))


def host_names(path: Path) -> list[str]:
    """Return the host names in an inventory (file or folder), without judging it.

    What cannot be read gives no names: this serves completion and the choice of an inventory, and the inventory's own
    validation says what is wrong.
    """
    hosts = [_mapping(group.get("hosts")) for _, group in _groups_in(path)]
    return sorted({name for group in hosts for pattern in group for name in _expand(pattern)})


def group_names(path: Path) -> list[str]:
    """Return the names of an inventory's groups, in the same forgiving way."""
    return sorted({name for name, _ in _groups_in(path)})


def _groups_in(path: Path) -> Iterator[tuple[str, dict[str, yaml.Node]]]:
    files = [path] if path.is_file() else []
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix in {".yml", ".yaml"})
    for file in files:
        try:
            # Composed, not loaded: Ansible's own tags such as !vault have no meaning here, and names need none.
            root = yaml.compose(file.read_text(encoding="utf-8"), Loader=_LOADER)
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            continue
        yield from _walk(root)


def _walk(node: yaml.Node | None) -> Iterator[tuple[str, dict[str, yaml.Node]]]:
    for name, value in _mapping(node).items():
        group = _mapping(value)
        yield name, group
        yield from _walk(group.get("children"))


def _expand(pattern: str) -> list[str]:
    """Return the names that Ansible's ``node[01:04]`` stands for; steps and letters are not offered."""
    parts = re.fullmatch(r"([^\[\]]*)\[(\d+):(\d+)\]([^\[\]]*)", pattern)
    if parts is None:
        return [pattern]
    before, first, last, after = parts.groups()
    numbers = range(int(first), min(int(last), int(first) + _MAX_RANGE) + 1)
    return [f"{before}{number:0{len(first)}d}{after}" for number in numbers]


def _mapping(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {key.value: value for key, value in node.value if isinstance(key, yaml.ScalarNode)}


def _existing(project: Project, given: str, origin: str) -> Path:
    for candidate in (Path(given), project.inventories / given):
        if candidate.exists():
            return candidate.absolute()
    raise UsageError(
        code="unknown-inventory",
        found=f"{origin} names {given!r}, which is neither a path nor in inventories/.",
        needed=f"An inventory; {suggest.did_you_mean(given, all_names(project))}",
        next_step="invoke init",
    )


def _unknown_hosts(lab: Path, hosts: list[str]) -> str:
    strange = [host for host in hosts if host not in host_names(lab)]
    if not strange:
        return "There is no inventory yet."
    close = suggest.nearest(strange[0], host_names(lab))
    hint = f" (did you mean {' or '.join(close)}?)" if close else ""
    return f"{', '.join(strange)} is no lab host{hint}, and there is no other inventory yet."


def _lab_hosts(lab: Path) -> str:
    names = host_names(lab)
    return f"the lab's hosts {names[0]} to {names[-1]}" if names else "lab hosts"
