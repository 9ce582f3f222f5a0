"""One way to read what a user wrote: typed models, and every mistake named with its file, line and cure.

A model is derived from :class:`Model`. :func:`load_yaml` and :func:`validate` return it, or raise all mistakes at once
as :class:`~ironlease.errors.UsageError`: an unknown key names the nearest known one, a time without an offset shows
the user's own value corrected.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from ironlease.errors import CombinedError, IronleaseError
from ironlease.schema.explain import explain
from ironlease.schema.model import Items, Location, Model, refuse, shown_value
from ironlease.schema.source import (
    Source,
    YamlSource,
    check_yaml,
    edit_command,
    line_of,
    read_yaml,
    shown_path,
    shown_place,
)
from ironlease.schema.times import AwareTime

__all__ = [
    "AwareTime",
    "Items",
    "Location",
    "Model",
    "Source",
    "YamlSource",
    "check_yaml",
    "edit_command",
    "line_of",
    "load_yaml",
    "read_yaml",
    "refuse",
    "shown_path",
    "shown_place",
    "shown_value",
    "validate",
]

ModelType = TypeVar("ModelType", bound=Model)


def load_yaml(path: Path, model: type[ModelType]) -> ModelType:
    """Read ``path`` and return it as ``model``.

    Raises UsageError, or an CombinedError of them, for a missing file, broken YAML and every mistake in the content.
    """
    return validate(read_yaml(path), model, YamlSource(path))


def validate(value: Any, model: type[ModelType], source: Source) -> ModelType:
    """Return ``value`` as ``model``, or raise all its mistakes, each with its place in ``source``."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = [dict(details) for details in error.errors(include_url=False)]
        mistakes: list[IronleaseError] = [
            explain(model, details, source) for details in found if not _follows(details, found)
        ]
    raise mistakes[0] if len(mistakes) == 1 else CombinedError(mistakes)


def _follows(details: dict[str, Any], found: list[dict[str, Any]]) -> bool:
    """Whether a list counts as too short only because its entries were refused, each with its own message."""
    location = details["loc"]
    return details["type"] == "too_short" and any(
        other["loc"][: len(location)] == location and other["loc"] != location for other in found
    )
