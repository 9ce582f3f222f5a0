"""``invoke stacks``: the tested sets of versions."""

from __future__ import annotations

from typing import Any

from ironlease import stack
from ironlease.console import Table
from ironlease.ops.context import Context
from ironlease.ops.result import Result
from ironlease.stack import Stack


def run(context: Context) -> Result:
    """Return every stack with its versions, systems, and what was and was not tested; all files are validated."""
    loaded = stack.load_all(context.project)
    table = Table(("stack", "what it is", "versions", "systems"))
    lines: list[str | Table] = [table]
    for one in loaded:
        versions = ", ".join(f"{name} {version}" for name, version in one.versions().items())
        table.rows.append((one.name, one.title, versions, ", ".join(_systems(one))))
        lines += [f"{one.name} tested: {what}" for what in one.tested]
        lines += [f"{one.name} not tested: {what}" for what in one.not_tested]
    return Result(
        data={"stacks": [_to_json(one) for one in loaded]},
        lines=lines,
        summary=f"{len(loaded)} stacks; give one to a host with ironlease_stack in the inventory, or with --stack.",
    )


def _systems(one: Stack) -> list[str]:
    return [f"{system.id} {system.release}" for system in one.distributions]


def _to_json(one: Stack) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "description": one.description,
        "accelerator": one.accelerator,
        "versions": one.versions(),
        "systems": _systems(one),
        "tested": list(one.tested),
        "not_tested": list(one.not_tested),
        "sha256": one.sha256,
    }
