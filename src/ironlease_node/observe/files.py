"""Files, folders, links, and places where nothing may be."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any

from ironlease_node.host import Unreadable
from ironlease_node.observe.context import Context, Difference, Thing, compare, required

BLOCK_BYTES = 1 << 20

_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}


def observe_file(context: Context, thing: Thing) -> list[Difference]:
    """Look at a regular file's content, mode and owners."""
    path, status, differences = _look(context, thing, "file")
    if status is None:
        return differences
    found = _ownership(context, thing, status)
    if thing.get("sha1") is not None:
        found["sha1"] = _sha1(path)
    return compare(_normalised(thing), found)


def observe_directory(context: Context, thing: Thing) -> list[Difference]:
    """Look at a folder's mode and owners."""
    _, status, differences = _look(context, thing, "directory")
    return differences if status is None else compare(_normalised(thing), _ownership(context, thing, status))


def observe_link(context: Context, thing: Thing) -> list[Difference]:
    """Look at a symbolic link's text."""
    path, status, differences = _look(context, thing, "link")
    if status is None:
        return differences
    return compare(thing, {"target": os.readlink(path)})  # noqa: PTH115 - the text as it is written


def observe_absent(context: Context, thing: Thing) -> list[Difference]:
    """Look that nothing is there."""
    _, _, differences = _look(context, thing, "absent")
    return differences


def _look(context: Context, thing: Thing, wanted: str) -> tuple[Path, os.stat_result | None, list[Difference]]:
    """Return the path, its status when it is of the wanted type, and the difference when it is not."""
    path = context.host.path(required(thing, "path"))
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return path, None, [] if wanted == "absent" else [Difference("type", wanted, "absent")]
    except OSError as error:
        raise Unreadable(f"{thing['path']}: {error.strerror}") from error
    found = _TYPES.get(stat.S_IFMT(status.st_mode), "special")
    if found != wanted:
        return path, None, [Difference("type", wanted, found)]
    return path, status, []


def _ownership(context: Context, thing: Thing, status: os.stat_result) -> dict[str, Any]:
    found: dict[str, Any] = {"mode": f"{stat.S_IMODE(status.st_mode):04o}"}
    for key, number, lines in (
        ("owner", status.st_uid, context.users),
        ("group", status.st_gid, context.groups),
    ):
        if thing.get(key) is not None:
            found[key] = str(number) if thing[key].isdigit() else _name_of(number, lines())
    return found


def _name_of(number: int, lines: list[list[str]]) -> str:
    return next((line[0] for line in lines if len(line) > 2 and line[2] == str(number)), str(number))


def _normalised(thing: Thing) -> Thing:
    """Return the thing with its mode in four octal digits.

    Raises Unreadable.
    """
    mode = thing.get("mode")
    if mode is None:
        return thing
    try:
        return {**thing, "mode": f"{int(mode, 8):04o}"}
    except (TypeError, ValueError) as error:
        raise Unreadable(f"the footprint's mode {mode!r} is not octal text") from error


def _sha1(path: Path) -> str:
    # SHA-1 is what Ansible's results carry; it finds a difference, it does not defend against anybody.
    digest = hashlib.sha1(usedforsecurity=False)
    try:
        with path.open("rb") as handle:
            while block := handle.read(BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from error
    return digest.hexdigest()
