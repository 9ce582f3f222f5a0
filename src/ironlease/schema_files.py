"""Writes the JSON Schemas that editors use: ``python -m ironlease.schema_files``.

They follow from the models; a contract test fails when the committed files are older than the models.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ironlease import files
from ironlease.inventory.model import json_schema as inventory_schema
from ironlease.paths import Project
from ironlease.stack.model import json_schema as stack_schema


def documents() -> dict[str, dict[str, Any]]:
    """Return the schemas by file name."""
    return {"inventory.schema.json": inventory_schema(), "stack.schema.json": stack_schema()}


def text(schema: dict[str, Any]) -> str:
    """Return a schema as its file holds it."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def write(folder: Path) -> None:
    """Write all schemas into ``folder``."""
    for name, schema in documents().items():
        files.write_atomically(folder / name, text(schema), mode=0o644)


if __name__ == "__main__":
    write(Project.here().root / "schemas")
    sys.exit(0)
