"""A program with tasks of its own, run in this process."""

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest

from ironlease.cli.declaration import Flag, Hosts, OneHost, namespace_of, task
from ironlease.cli.program import Program
from ironlease.console import Table
from ironlease.errors import CombinedError, ExitCode, UnreachableError, UsageError
from ironlease.ops.context import Context
from ironlease.ops.result import Result
from ironlease.paths import Project

Kinds = Annotated[Sequence[str], Flag("kinds", value="KIND[,KIND...]", choices=("unit", "contract"))]


@task(example="invoke echo --host a,b")
def echo(
    context: Context,
    *,
    host: Hosts = (),
    number: Annotated[int | None, Flag("a number", value="N")] = None,
    only: Kinds = (),
    file: Annotated[Path | None, Flag("a file", value="FILE", completes="files")] = None,
    run: Annotated[str | None, Flag("a run", value="RUN", completes="runs")] = None,
    yes: Annotated[bool, Flag("agree")] = False,
) -> Result:
    """Give back what was read.

    At some
    length.
    """
    seen = {"host": list(host), "number": number, "only": list(only), "file": str(file), "run": run, "yes": yes}
    return Result(data={"seen": seen}, lines=[Table(("host",), [(name,) for name in host])], summary="Said.")


@task(name="lab.ssh", example="invoke lab.ssh --host a")
def lab_ssh(context: Context, *, host: OneHost) -> Result:
    """Need a host."""
    return Result(data={"host": host})


@task(example="invoke refuse")
def refuse(context: Context) -> Result:
    """Refuse twice."""
    raise CombinedError(
        [
            UsageError(found="first thing", needed="a", next_step="invoke echo"),
            UnreachableError(found="second thing", needed="b", next_step="c", host="node2"),
        ]
    )


@task(example="invoke partly")
def partly(context: Context) -> Result:
    """Do one of two hosts."""
    context.run_folder.write_text("note.txt", "kept")
    error = UnreachableError(found="no answer", needed="an answer", next_step="invoke status", host="node2")
    return Result(data={"hosts": {"node1": {}}}, lines=["node1 done"], summary="1 of 2.", errors=[error])


@task(example="invoke crash")
def crash(context: Context) -> Result:
    """Crash."""
    sys.stdout.write("printed by a library\n")
    raise RuntimeError("boom")


@task(example="invoke unsure")
def unsure(context: Context) -> Result:
    """Not know."""
    return Result(exit_code=ExitCode.UNKNOWN)


@task(example="invoke stop")
def stop(context: Context) -> Result:
    """Be interrupted."""
    raise KeyboardInterrupt


GROUPS = {"Talk": [echo, refuse, partly, crash, unsure, stop], "Lab": [lab_ssh]}


@dataclass
class Outcome:
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.stdout)


@pytest.fixture
def tasks() -> ModuleType:
    module = ModuleType("tasks_of_the_tests")
    module.GROUPS = GROUPS
    module.namespace = namespace_of(GROUPS)
    return module


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def program(project: Project, tasks: ModuleType) -> Program:
    return Program(project, tasks)


@pytest.fixture
def invoke(program: Program, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def run(*words: str) -> Outcome:
        with pytest.raises(SystemExit) as ended:
            program.run(["invoke", *words])
        captured = capsys.readouterr()
        return Outcome(int(ended.value.code), captured.out, captured.err)

    return run
