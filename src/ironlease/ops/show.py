"""``invoke show``: the result of an earlier run, again, from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ironlease import files, runs, suggest
from ironlease.errors import UsageError
from ironlease.ops.context import Context
from ironlease.ops.result import RECORD_NAME, Result


def run(context: Context, *, run: str | None = None) -> Result:
    """Return the result that the run ``run`` (a folder's name; None: the latest) had."""
    known = [name for name in runs.names(context.project) if (context.project.runs / name / RECORD_NAME).is_file()]
    name = run or (known[-1] if known else None)
    if name is None:
        raise UsageError(
            code="no-run",
            found=f"{context.project.runs} holds no finished run yet.",
            needed="A run to show.",
            next_step="invoke provision --host lab1",
        )
    if name not in known:
        raise UsageError(
            code="unknown-run",
            found=f"There is no finished run {name!r}.",
            needed=f"A folder under {context.project.runs}; {suggest.did_you_mean(name, known[-5:])}",
            next_step="invoke show",
        )
    return Result.from_record(_read(context.project.runs / name))


def _read(folder: Path) -> dict[str, Any]:
    path = folder / RECORD_NAME
    try:
        record = files.read_json(path)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise UsageError(
            code="run-broken",
            found=f"{path} is not what ironlease wrote there.",
            needed="A record as the run left it.",
            next_step="invoke show, with another run",
        )
    return record
