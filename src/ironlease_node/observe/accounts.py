"""Local users and groups, from /etc/passwd and /etc/group."""

from __future__ import annotations

from typing import Any

from ironlease_node.observe.context import Context, Difference, Thing, compare, required


def observe_group(context: Context, thing: Thing) -> list[Difference]:
    """Look at a group."""
    line = _find(context.groups(), required(thing, "name"))
    difference = _existence(thing, line)
    return difference if difference or line is None else compare(_with_text(thing, "gid"), {"gid": line[2]})


def observe_user(context: Context, thing: Thing) -> list[Difference]:
    """Look at an account's fields."""
    name = required(thing, "name")
    line = _find(context.users(), name)
    differences = _existence(thing, line)
    if differences or line is None:
        return differences
    groups = context.groups()
    found: dict[str, Any] = {"uid": line[2], "comment": line[4], "home": line[5], "shell": line[6]}
    if thing.get("group") is not None:
        # The primary group may be named or numbered.
        found["group"] = line[3] if str(thing["group"]).isdigit() else _group_name(groups, line[3])
    if thing.get("create_home") is True:
        found["create_home"] = context.host.path(line[5]).is_dir()
    differences = compare(_with_text(thing, "uid", "group"), found)
    return differences + _group_differences(thing, _memberships(groups, name))


def _existence(thing: Thing, line: list[str] | None) -> list[Difference]:
    wanted = thing.get("state") or "present"
    found = "absent" if line is None else "present"
    return [] if wanted == found else [Difference("state", wanted, found)]


def _find(lines: list[list[str]], name: str) -> list[str] | None:
    return next((line for line in lines if line[0] == name), None)


def _group_name(groups: list[list[str]], gid: str) -> str:
    return next((line[0] for line in groups if line[2] == gid), gid)


def _memberships(groups: list[list[str]], name: str) -> set[str]:
    return {line[0] for line in groups if len(line) > 3 and name in line[3].split(",")}


def _group_differences(thing: Thing, found: set[str]) -> list[Difference]:
    if thing.get("groups") is None:
        return []
    listed = thing["groups"]
    names = listed if isinstance(listed, list) else str(listed).split(",")
    wanted = {str(name).strip() for name in names if str(name).strip()}
    # With `append` the account may be in more groups than were asked for.
    as_wanted = wanted <= found if thing.get("append") else wanted == found
    return [] if as_wanted else [Difference("groups", sorted(wanted), sorted(found))]


def _with_text(thing: Thing, *keys: str) -> Thing:
    """Return the thing with its numbers as text, as the files have them."""
    return {**thing, **{key: str(thing[key]) for key in keys if thing.get(key) is not None}}
