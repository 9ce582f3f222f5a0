"""Debian packages and their holds, from dpkg's status file."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ironlease_node.host import Unreadable
from ironlease_node.observe.context import Context, Difference, Thing, compare, required

_ABSENT_STATES = {"absent", "not-installed", "config-files"}


def observe_package(context: Context, thing: Thing) -> list[Difference]:
    """Look whether a package is installed whole, and in which version."""
    name, wanted = required(thing, "name"), required(thing, "state")
    package = context.database().find(name)
    state = package.state if package else "absent"
    if package is not None and package.flag == "reinstreq":
        state = "reinst-required"
    if wanted == "absent":
        return [] if state in _ABSENT_STATES else [Difference("state", "absent", state)]
    if wanted != "present":
        # `latest` cannot be observed on the host alone.
        raise Unreadable(f"nothing observes the state {wanted!r} of a package")
    if package is None or state != "installed":
        return [Difference("state", "installed", state)]
    version = thing.get("version")
    if version is None or fnmatchcase(package.version, version):
        return []
    return [Difference("version", version, package.version)]


def observe_selection(context: Context, thing: Thing) -> list[Difference]:
    """Look at dpkg's selection: hold keeps a package from being upgraded."""
    required(thing, "selection")
    package = context.database().find(required(thing, "name"))
    return compare(thing, {"selection": package.selection if package else "absent"})
