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
    "string_type": "Text; quote it if it looks like a number or a date.",
    "int_type": "A whole number, without quotes.",
    "float_type": "A number, without quotes.",
    "bool_type": "true or false.",
    "tuple_type": "A list.",
    "list_type": "A list.",
    "dict_type": "A mapping of keys to values.",
    "model_type": "A mapping of keys to values.",
    "model_attributes_type": "A mapping of keys to values.",
}


def explain(model: type[BaseModel], details: dict[str, Any], source: Source) -> UsageError:
    """Return one of pydantic's error ``details`` about ``model`` as an error with its place in ``source``."""
    location: Location = tuple(details["loc"])
    file, line = source.place(location)
    name = dotted(location) or "the file"
    edit = edit_command(file, line)
    kind, context = details["type"], details.get("ctx", {})
    if kind == "extra_forbidden":
        code, what = "unknown-key", f"unknown key {name}"
        needed = _sentence(did_you_mean(str(location[-1]), _keys(model, location[:-1])))
        next_step = f"Rename or remove it: {edit}"
    elif kind == "missing":
        code, what = "missing-key", f"{name} is missing"
        needed, next_step = f"{name}; it has no default.", f"Add it: {edit}"
    elif kind == "refused":
        code, what = "bad-value", f"{name} is {context['found']}"
        needed, next_step = context["needed"], edit
        if context["correction"]:
            next_step = f"Write {location[-1]}: {context['correction']} with {edit}"
    else:
        code, what = "bad-value", f"{name} is {shown_value(details['input'])}"
        needed, next_step = _needed(kind, context, details), edit
    return UsageError(code=code, found=f"{shown_place(file, line)}: {what}.", needed=needed, next_step=next_step)


def dotted(location: Location) -> str:
    """Return ``runs[0].path`` for the steps that lead there."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).removeprefix(".")


def _needed(kind: str, context: dict[str, Any], details: dict[str, Any]) -> str:
    if kind == "literal_error":
        allowed = [word.strip("' ") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        return _sentence(did_you_mean(str(details["input"]), allowed))
    if kind == "too_short":
        return f"At least {context['min_length']} of them."
    if kind in _NEEDED:
        return _NEEDED[kind]
    message: str = details["msg"].removeprefix("Input should be ")
    return _sentence(f"{message}.")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


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
