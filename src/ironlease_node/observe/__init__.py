"""`observe`: is each managed thing as the roles left it? docs/reference/footprint.md describes request and answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ironlease_node import environment, kernel_parameters, shared_memory
from ironlease_node.host import Host, Unreadable
from ironlease_node.observe import accounts, files, packages
from ironlease_node.observe.context import Context, Difference, Thing, compare, required
from ironlease_node.refusal import Refusal
from ironlease_node.tools import Runner

FOOTPRINT_SCHEMA = "ironlease.footprint/1"
SCHEMA = "ironlease.observation/1"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return `ironlease.observation/1` for a footprint.

    Raises Refusal.
    """
    return observe(request, Host(), Runner())


def observe(footprint: dict[str, Any], host: Host, runner: Runner) -> dict[str, Any]:
    """Look at every thing of the footprint.

    Raises Refusal when it is not a footprint.
    """
    things = _things(footprint)
    context = Context(host, runner, things)
    differences = [entry for index, thing in enumerate(things) for entry in _entry(context, index, thing)]
    return {
        "schema": SCHEMA,
        "total": len(things),
        "as_wanted": len(things) - len(differences),
        "differences": differences,
    }


def _things(footprint: dict[str, Any]) -> list[Thing]:
    things = footprint.get("things")
    whole = isinstance(things, list) and all(isinstance(thing, dict) for thing in things)
    if footprint.get("schema") != FOOTPRINT_SCHEMA or not isinstance(things, list) or not whole:
        raise Refusal(
            code="bad-input",
            found=f"A request with the schema {footprint.get('schema')!r}, or without a list of things.",
            needed=f"A footprint: `schema` {FOOTPRINT_SCHEMA!r} and `things`, a list of objects.",
            next_step="invoke provision --full (makes the footprint anew)",
        )
    return things


def _entry(context: Context, index: int, thing: Thing) -> list[dict[str, Any]]:
    """Return nothing for a thing that is as wanted, else one entry for the answer."""
    entry = {
        "index": index,
        "role": thing.get("role"),
        "task": thing.get("task"),
        "kind": thing.get("kind"),
        "target": thing.get("path") or thing.get("name"),
    }
    look = OBSERVERS.get(str(thing.get("kind")))
    try:
        if look is None:
            raise Unreadable(f"nothing observes the kind {thing.get('kind')!r}")
        differences = look(context, thing)
    except Unreadable as error:
        return [{**entry, "state": "unknown", "wanted": None, "found": None, "reason": str(error)}]
    except (ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        # A thing of a shape that nobody foresaw: it was not observed, and the others still are.
        return [{**entry, "state": "unknown", "wanted": None, "found": None, "reason": repr(error)}]
    if not differences:
        return []
    return [
        {
            **entry,
            "state": "differs",
            "wanted": {difference.key: difference.wanted for difference in differences},
            "found": {difference.key: difference.found for difference in differences},
        }
    ]


def _observe_unit(context: Context, thing: Thing) -> list[Difference]:
    return compare(thing, context.unit(required(thing, "name")).as_found())


def _observe_sysctl(context: Context, thing: Thing) -> list[Difference]:
    name, wanted = required(thing, "name"), required(thing, "value")
    if not kernel_parameters.is_name(name):
        raise Unreadable(f"{name!r} is no name of a kernel parameter")
    found = kernel_parameters.observe(name, wanted, context.host.path("/proc/sys"))
    return [Difference("value", wanted, found.live)] if found.differs else []


def _observe_environment(context: Context, thing: Thing) -> list[Difference]:
    path = context.host.path(required(thing, "path"))
    pins = {str(item["name"]): str(item["version"]) for item in thing["packages"]}
    python = thing.get("python")
    differences = environment.observe_environment(path, pins, None if python is None else Path(python))
    wanted = {environment.normalise(name): version for name, version in pins.items()}
    return [
        Difference(
            difference.subject,
            wanted.get(difference.subject, "an interpreter that works"),
            f"{difference.problem}: {difference.detail}",
        )
        for difference in differences
    ]


def _observe_mount_size(context: Context, thing: Thing) -> list[Difference]:
    wanted = thing.get("size_bytes")
    if not isinstance(wanted, int):
        raise Unreadable("the footprint gives no number under `size_bytes`")
    live = shared_memory.live_bytes(context.host.path(required(thing, "path")))
    return [] if shared_memory.is_size(live, wanted) else [Difference("size_bytes", wanted, live)]


OBSERVERS: dict[str, Callable[[Context, Thing], list[Difference]]] = {
    "absent": files.observe_absent,
    "directory": files.observe_directory,
    "file": files.observe_file,
    "group": accounts.observe_group,
    "link": files.observe_link,
    "mount_size": _observe_mount_size,
    "package": packages.observe_package,
    "python_environment": _observe_environment,
    "selection": packages.observe_selection,
    "sysctl": _observe_sysctl,
    "unit": _observe_unit,
    "user": accounts.observe_user,
}
