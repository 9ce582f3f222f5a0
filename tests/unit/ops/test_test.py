"""`invoke test` on a suite of the test's own, with a real pytest."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ironlease import system_packages
from ironlease.errors import ExitCode, UnfinishedError, UsageError
from ironlease.ops import test
from ironlease.ops.context import Context

ROOT = Path(__file__).resolve().parents[3]
SUITES = {
    "unit": "def test_right(): pass\n",
    "contract": "import pytest\ndef test_wrong(): assert False\n@pytest.mark.skip\ndef test_later(): pass\n",
    "roles": "import pytest\n@pytest.mark.lab\ndef test_boots(): pass\n",
}


@pytest.fixture(autouse=True)
def asked_for(context: Context, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Write the suites, and return which groups of system tools were asked for."""
    (context.project.root / "pytest.ini").write_text("[pytest]\nmarkers = lab: x\n")
    for kind, text in SUITES.items():
        folder = context.project.root / "tests" / kind
        folder.mkdir(parents=True)
        (folder / f"test_{kind}.py").write_text(text)
    asked: list[str] = []
    monkeypatch.setattr(system_packages, "ensure", lambda console, groups, *, task: asked.extend(groups))
    return asked


@pytest.mark.parametrize(
    ("only", "fast", "code", "counts"),
    [
        (["unit"], False, ExitCode.OK, (1, 0, 0)),
        (["contract", "unit"], False, ExitCode.FAIL, (1, 1, 1)),
        (["roles"], False, ExitCode.OK, (1, 0, 0)),
        (["roles"], True, ExitCode.UNKNOWN, (0, 0, 0)),
        ([], True, ExitCode.FAIL, (1, 1, 1)),
    ],
)
def test_kinds_are_chosen_and_counted(
    context: Context, only: list[str], fast: bool, code: ExitCode, counts: tuple[int, int, int]
) -> None:
    result = test.run(context, only=only, fast=fast)

    assert result.exit_code is code
    assert tuple(result.data[name] for name in ("passed", "failed", "skipped")) == counts


def test_a_suite_that_cannot_be_loaded_is_not_a_pass(context: Context) -> None:
    (context.project.root / "tests" / "unit" / "test_broken.py").write_text("import nothing_like_this\n")

    assert test.run(context, only=["unit"], fast=False).exit_code is ExitCode.UNFINISHED


def test_a_kind_without_tests_is_refused(context: Context) -> None:
    with pytest.raises(UsageError, match="no tests of the kind e2e"):
        test.run(context, only=["e2e"], fast=False)


@pytest.mark.parametrize(
    ("only", "fast", "groups"),
    [(["unit"], False, []), (["roles"], False, ["ssh", "lab"]), (["roles"], True, []), ([], False, ["ssh", "lab"])],
)
def test_the_labs_tools_are_only_asked_for_where_a_lab_is_booted(
    context: Context, asked_for: list[str], only: list[str], fast: bool, groups: list[str]
) -> None:
    test.run(context, only=only, fast=fast)

    assert asked_for == groups


def test_a_suite_without_end_is_ended(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    path = context.project.root / "tests" / "unit" / "test_unit.py"
    path.write_text("import time\ndef test_long(): time.sleep(60)\n")
    monkeypatch.setattr(test, "TIMEOUT_SECONDS", 2)
    started = time.monotonic()
    with pytest.raises(UnfinishedError):
        test.run(context, only=["unit"], fast=False)

    assert time.monotonic() - started < 30


INTERRUPTED = """
import io
from pathlib import Path
from ironlease.cli.delivery import interrupt_on_signals
from ironlease.console import Console
from ironlease.ops import test
from ironlease.ops.context import Context
from ironlease.paths import Project
interrupt_on_signals()
context = Context(command="test", console=Console(), project=Project(Path({root!r})))
test.run(context, only=["unit"], fast=False)
"""
SLOW_CLEAN_UP = """
import time, pathlib, pytest
@pytest.fixture
def lab():
    yield
    time.sleep(1)
    pathlib.Path({root!r}, "cleaned").touch()
def test_long(lab):
    pathlib.Path({root!r}, "started").touch()
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_suite_cleans_up(context: Context, number: signal.Signals) -> None:
    root = context.project.root
    (root / "tests" / "unit" / "test_unit.py").write_text(SLOW_CLEAN_UP.format(root=str(root)))
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED.format(root=str(root))],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        deadline = time.monotonic() + 60
        while not (root / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        process.send_signal(number)
        process.wait(60)

    assert (root / "cleaned").exists()
