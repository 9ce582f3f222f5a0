"""Runs one task: its system tools first, then its body; times it, and keeps its outcome in the run folder."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ironlease import system_packages
from ironlease.cli.declaration import HOSTS, Task
from ironlease.cli.delivery import guarded
from ironlease.ops import inventories
from ironlease.ops.context import Context
from ironlease.ops.result import RECORD_NAME, Result


def execute(task: Task, options: dict[str, Any], context: Context) -> Result:
    """Return the task's result, with the keys that every task adds: ``seconds``, and ``run_dir`` where there is one."""
    started = time.monotonic()
    result = guarded(lambda: _perform(task, options, context), lambda: context.run_folder, debug=context.debug)
    result.data["seconds"] = round(time.monotonic() - started, 1)
    if context.has_run_folder:
        result.data["run_dir"] = str(context.run_folder.path)
        # What was done stays done, and is told, when there is no room to keep it.
        kept = guarded(lambda: _keep(result, context), lambda: context.run_folder, debug=context.debug)
        result = replace(result, errors=[*result.errors, *kept.errors])
    return result


def _keep(result: Result, context: Context) -> Result:
    """Keep the record; what this returns holds only what went wrong with that."""
    context.run_folder.write_json(RECORD_NAME, result.to_record(context.command))
    return Result()


def _perform(task: Task, options: dict[str, Any], context: Context) -> Result:
    system_packages.ensure(context.console, _tools(task, options, context), task=task.dotted_name)
    result: Result = task.body(context, **options)
    return result


def _tools(task: Task, options: dict[str, Any], context: Context) -> list[str]:
    """Return the groups of system tools: to reach hosts, and to boot them where they are lab hosts."""
    if HOSTS not in task.needs:
        return list(task.needs)
    return [
        *(need for need in task.needs if need != HOSTS),
        "ssh",
        *(["lab"] if _means_the_lab(options, context) else []),
    ]


def _means_the_lab(options: dict[str, Any], context: Context) -> bool:
    hosts = options.get("host") or []
    inventory = context.inventory_for([hosts] if isinstance(hosts, str) else list(hosts))
    return inventory == context.project.inventories / inventories.LAB
