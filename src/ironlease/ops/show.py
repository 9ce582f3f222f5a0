"""``invoke show``: the result of an earlier run, again, from its folder."""

from __future__ import annotations

from pathlib import Path

from ironlease import files, runs, suggest
from ironlease.errors import UsageError
from ironlease.ops.context import Context
from ironlease.ops.result import RECORD_NAME, SCHEMA, Result


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
    shown = _read(context.project.runs / name / RECORD_NAME)
    context.console.note(f"Run {name}:")
    return shown


def _read(path: Path) -> Result:
    try:
        record = files.read_json(path)
        if record["schema"] == SCHEMA:
            return Result.from_record(record)
    except (AttributeError, KeyError, TypeError, ValueError):
        pass
    raise UsageError(
        code="run-broken",
        found=f"{path} is not what this version of ironlease wrote there.",
        needed=f"A record of the form {SCHEMA}.",
        next_step="invoke show --run NAME, with another run",
    )
