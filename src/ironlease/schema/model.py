"""The base of every model that is read from a file."""

from __future__ import annotations

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Strict
from pydantic_core import PydanticCustomError

Location = tuple[str | int, ...]
_Item = TypeVar("_Item")
_SHOWN_VALUE_CHARACTERS = 60


class Model(BaseModel):
    """The base of everything that is read from a file: no unknown keys, no silent conversions, never changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


# YAML gives lists, and a frozen model holds tuples: the one conversion that is wanted.
Items = Annotated[tuple[_Item, ...], Strict(False)]


def refuse(found: str, needed: str, correction: str | None = None) -> PydanticCustomError:
    """Return the error that a model's own validator raises: what was found, what is needed, what to write instead."""
    return PydanticCustomError("refused", "{found}", {"found": found, "needed": needed, "correction": correction or ""})


def shown_value(value: object) -> str:
    """Return a value as messages show it: short, and as YAML would have it."""
    if value is None:
        return "nothing"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _SHOWN_VALUE_CHARACTERS else text[:_SHOWN_VALUE_CHARACTERS] + "..."
