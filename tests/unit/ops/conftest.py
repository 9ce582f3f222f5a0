"""The surroundings of an operation, in a folder of the test's own."""

import io
import shutil
from pathlib import Path

import pytest

from ironlease.console import Console
from ironlease.ops.context import Context
from ironlease.paths import Project

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Context:
    monkeypatch.delenv("IRONLEASE_RUNS_DIR", raising=False)
    monkeypatch.delenv("IRONLEASE_STATE_DIR", raising=False)
    shutil.copytree(ROOT / "stacks", tmp_path / "stacks")
    console = Console(stdout=io.StringIO(), stderr=io.StringIO())
    return Context(command="task", console=console, project=Project(tmp_path))
