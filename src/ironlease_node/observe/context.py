"""What the observers look with, each expensive look taken once for all things."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from ironlease_node import dpkg
from ironlease_node.host import Host, Unreadable
from ironlease_node.observe.units import UnitState, parse_show, show_command, unit_name
from ironlease_node.tools import OK, Runner

Thing = dict[str, Any]
Value = TypeVar("Value")


class Difference(NamedTuple):
    """One key of a thing that is not as wanted."""

    key: str
    wanted: Any
    found: Any


class Context:
    """The host, and what was read of it for all things together."""

    def __init__(self, host: Host, runner: Runner, things: Iterable[Thing]) -> None:
        self.host = host
        self._runner = runner
        names = {str(thing.get("name") or "") for thing in things if thing.get("kind") == "unit"}
        self._unit_names = sorted({unit_name(name) for name in names - {""}})

    @cached_property
    def _database(self) -> dpkg.Database | Unreadable:
        return _kept(lambda: dpkg.read(self.host))

    @cached_property
    def _units(self) -> dict[str, UnitState] | Unreadable:
        return _kept(self._ask_systemd)

    @cached_property
    def _accounts(self) -> tuple[list[list[str]], list[list[str]]] | Unreadable:
        return _kept(lambda: (_colon_lines(self.host, "/etc/passwd"), _colon_lines(self.host, "/etc/group")))

    def database(self) -> dpkg.Database:
        """Return dpkg's records.

        Raises Unreadable.
        """
        return _given(self._database)

    def unit(self, name: str) -> UnitState:
        """Return what systemd says of a unit of the footprint.

        Raises Unreadable.
        """
        return _given(self._units)[unit_name(name)]

    def users(self) -> list[list[str]]:
        """Return the lines of /etc/passwd, split.

        Raises Unreadable.
        """
        return _given(self._accounts)[0]

    def groups(self) -> list[list[str]]:
        """Return the lines of /etc/group, split.

        Raises Unreadable.
        """
        return _given(self._accounts)[1]

    def _ask_systemd(self) -> dict[str, UnitState]:
        outcome = self._runner.run(show_command(self._unit_names))
        if outcome.status != OK:
            raise Unreadable(outcome.reason)
        return parse_show(outcome.stdout, self._unit_names)


def required(thing: Thing, key: str) -> str:
    """Return a key that the thing must have, as text.

    Raises Unreadable.
    """
    value = thing.get(key)
    if not _is_text(value):
        raise Unreadable(f"the footprint gives no text under `{key}`")
    return str(value)


def compare(thing: Thing, found: dict[str, Any]) -> list[Difference]:
    """Return the keys of ``found`` that the thing wants otherwise; keys that it does not name are not looked at."""
    return [
        Difference(key, thing[key], value)
        for key, value in found.items()
        if thing.get(key) is not None and thing[key] != value
    ]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _colon_lines(host: Host, path: str) -> list[list[str]]:
    return [line.split(":") for line in host.text(path).splitlines() if line and not line.startswith("#")]


def _kept(read: Callable[[], Value]) -> Value | Unreadable:
    """Keep the failure too: a hung systemd must not be waited for once for each unit."""
    try:
        return read()
    except Unreadable as error:
        return error


def _given(value: Value | Unreadable) -> Value:
    if isinstance(value, Unreadable):
        raise value
    return value
