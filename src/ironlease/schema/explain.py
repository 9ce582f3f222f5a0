"""Turns what pydantic found into errors in three parts."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from ironlease.errors import UsageError
from ironlease.schema.model import Location, shown_value
from ironlease.schema.source import Source, edit_command, shown_place
from ironlease.suggest import did_you_mean

_NEEDED = {
    "string_type": "text; quote it if it looks like a number or a date",
    "int_type": "a whole number, without quotes",
    "float_type": "a number, without quotes",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "model_attributes_type": "a mapping of keys to values",
}


def explain(model: type[BaseModel], details: dict[str, Any], source: Source) -> UsageError:
    """Return one of pydantic's error ``details`` about ``model`` as an error with its place in ``source``."""
    location: Location = tuple(details["loc"])
    file, line = source.place(location)
    place = shown_place(file, line)
    name = dotted(location) or "the file"
    kind, context = details["type"], details.get("ctx", {})
    edit = edit_command(file, line)
    if kind == "extra_forbidden":
        known = list(_keys(model, location[:-1]))
        return UsageError(
            code="unknown-key",
            found=f"{place}: unknown key {name}",
            needed=did_you_mean(str(location[-1]), known),
            next_step=f"rename or remove it: {edit}",
        )
    if kind == "missing":
        return UsageError(
            code="missing-key",
            found=f"{place}: {name} is missing",
            needed=f"{name}, which has no default",
            next_step=f"add it: {edit}",
        )
    if kind == "refused":
        correction = (
            f"write {location[-1] if location else name}: {context['correction']}, " if context["correction"] else ""
        )
        return UsageError(
            code="bad-value",
            found=f"{place}: {name} is {context['found']}",
            needed=context["needed"],
            next_step=f"{correction}{edit}",
        )
    return UsageError(
        code="bad-value",
        found=f"{place}: {name} is {shown_value(details['input'])}",
        needed=_needed(kind, context, details),
        next_step=edit,
    )


def dotted(location: Location) -> str:
    """Return ``runs[0].path`` for the steps that lead there."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).removeprefix(".")


def _needed(kind: str, context: dict[str, Any], details: dict[str, Any]) -> str:
    if kind == "literal_error":
        allowed = [word.strip("' ") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        return did_you_mean(str(details["input"]), allowed)
    if kind in _NEEDED:
        return _NEEDED[kind]
    message: str = details["msg"]
    return message.removeprefix("Input should be ").removeprefix("Value error, ")


def _keys(model: type[BaseModel], location: Location) -> Iterator[str]:
    """Yield the keys that may stand at ``location``."""
    annotations: list[Any] = [model]
    for step in location:
        annotations = [child for item in annotations for child in _children(item, step)]
    for item in annotations:
        if isinstance(item, type) and issubclass(item, BaseModel):
            yield from (field.alias or name for name, field in item.model_fields.items())


def _children(annotation: Any, step: str | int) -> list[Any]:
    """Return the types of what lies at ``step`` of a value of type ``annotation``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            if step in (field.alias, name):
                return _plain_types(field.annotation)
        return []
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return _plain_types(arguments[1])
    return _plain_types(arguments[0]) if arguments else []


def _plain_types(annotation: Any) -> list[Any]:
    """Return the types that a union or an annotated type stands for."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _plain_types(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [plain for part in get_args(annotation) for plain in _plain_types(part)]
    return [] if origin is Literal else [annotation]
