"""The verdicts of `invoke lint`."""

import sys
from pathlib import Path

import pytest

from ironlease.console import Table
from ironlease.errors import ExitCode
from ironlease.ops import lint
from ironlease.ops.context import Context


def write_lists(root: Path, **texts: str) -> None:
    good = {
        "requirements.in": "# why\nrich\nPyYAML\n",
        "requirements.lock": "pyyaml==6.0 \\\n    --hash=sha256:00\nrich==15.0.0 \\\n    --hash=sha256:00\n",
        "requirements-dev.in": "-r requirements.in\ntypes_paramiko\n",
        "requirements-dev.lock": "pyyaml==6.0\nrich==15.0.0\ntypes-paramiko==5.1\n",
    }
    for name, text in {**good, **{key.replace("__", "."): text for key, text in texts.items()}}.items():
        (root / name).write_text(text)


def test_lists_and_locks_that_agree_pass(tmp_path: Path) -> None:
    write_lists(tmp_path)

    assert lint.check_locks(tmp_path) == ("pass", "")


@pytest.mark.parametrize(
    ("name", "text", "mistake"),
    [
        ("requirements.lock", "rich==15.0.0\n", "requirements.lock lacks pyyaml"),
        ("requirements-dev.lock", "pyyaml==6.0\nrich==15.0.0\n", "requirements-dev.lock lacks types-paramiko"),
        (
            "requirements-dev.lock",
            "pyyaml==6.1\nrich==15.0.0\ntypes-paramiko==5\n",
            "pyyaml is 6.0 in requirements.lock",
        ),
    ],
)
def test_a_lock_that_is_behind_fails(tmp_path: Path, name: str, text: str, mistake: str) -> None:
    write_lists(tmp_path)
    (tmp_path / name).write_text(text)
    verdict, words = lint.check_locks(tmp_path)

    assert verdict == "fail"
    assert mistake in words


def test_all_tools_run_whatever_the_first_ones_find(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def check(name: str, verdict: str) -> object:
        return lambda: (ran.append(name), (verdict, f"{name} says so"))[1]

    checks = {name: check(name, verdict) for name, verdict in (("a", "fail"), ("b", "unknown"), ("c", "pass"))}
    monkeypatch.setattr(lint, "_checks", lambda root: checks)
    result = lint.run(context)

    assert ran == ["a", "b", "c"]
    assert result.exit_code is ExitCode.FAIL
    assert result.summary == "Not in order: a, b."
    assert result.data["tools"]["a"] == {"verdict": "fail", "output": "a says so"}
    (*outputs, table) = result.lines
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows] == [("a", "fail"), ("b", "unknown"), ("c", "pass")]
    assert [str(output).splitlines()[0] for output in outputs] == ["a:", "b:"]


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ([sys.executable, "-c", "pass"], "pass"),
        ([sys.executable, "-c", "raise SystemExit('wrong')"], "fail"),
        (["no-such-tool-anywhere"], "unknown"),
        ([sys.executable, "-c", "import time; time.sleep(30)"], "unknown"),
    ],
)
def test_a_tool_that_did_not_run_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], verdict: str
) -> None:
    monkeypatch.setattr(lint, "TOOL_TIMEOUT_SECONDS", 2)

    assert lint._command_check(tmp_path, command)()[0] == verdict


def test_shell_scripts_are_found_except_in_what_is_not_ours(tmp_path: Path) -> None:
    for name in ("roles/x/files/a.sh", "b.bash", ".venv/bin/c.sh", "runs/d.sh"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert lint.shell_scripts(tmp_path) == ["invoke", ".ci/run", "b.bash", "roles/x/files/a.sh"]
