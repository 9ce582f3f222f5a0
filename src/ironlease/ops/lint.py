"""``invoke lint``: the form of everything, by one tool for each language."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ironlease.console import Table
from ironlease.errors import ExitCode, worst
from ironlease.ops.context import Context
from ironlease.ops.result import Result

TOOL_TIMEOUT_SECONDS = 900
# Shell scripts whose names do not say so; those called *.sh and *.bash are found.
_SHELL_SCRIPTS = ("invoke", ".ci/run")
_NOT_OURS = {".venv", ".ansible", "runs", "state"}


@dataclass(frozen=True)
class Verdict:
    """What one tool found."""

    tool: str
    verdict: str
    seconds: float
    output: str

    @property
    def exit_code(self) -> ExitCode:
        """The exit code that the verdict stands for."""
        return {"pass": ExitCode.OK, "fail": ExitCode.FAIL}.get(self.verdict, ExitCode.UNKNOWN)


def run(context: Context) -> Result:
    """Run all tools, whatever the first ones find, and return one table."""
    root = context.project.root
    verdicts = [_judge(context, tool, check, root) for tool, check in _checks(root).items()]
    table = Table(("tool", "verdict", "seconds"))
    for one in verdicts:
        table.rows.append((one.tool, one.verdict, f"{one.seconds:.1f}"))
    wrong = [one.tool for one in verdicts if one.verdict != "pass"]
    return Result(
        data={"tools": {one.tool: {"verdict": one.verdict, "output": one.output} for one in verdicts}},
        lines=[*(f"{one.tool}:\n{one.output}\n" for one in verdicts if one.verdict != "pass"), table],
        summary=f"Not in order: {', '.join(wrong)}." if wrong else "All in order.",
        exit_code=worst([one.exit_code for one in verdicts]),
    )


def _checks(root: Path) -> dict[str, Callable[[], tuple[str, str]]]:
    commands = {
        "ruff check": ["ruff", "check", "."],
        "ruff format": ["ruff", "format", "--check", "--diff", "."],
        "mypy": ["mypy"],
        "yamllint": ["yamllint", "--strict", "."],
        "ansible-lint": ["ansible-lint", "--offline", "--nocolor", "-q"],
        "shellcheck": ["shellcheck", *shell_scripts(root)],
    }
    checks = {tool: _command_check(root, command) for tool, command in commands.items()}
    return {**checks, "lock files": lambda: check_locks(root)}


def _judge(context: Context, tool: str, check: Callable[[], tuple[str, str]], root: Path) -> Verdict:
    context.console.note(f"{tool} ...")
    started = time.monotonic()
    verdict, output = check()
    return Verdict(tool, verdict, time.monotonic() - started, output)


def _command_check(root: Path, command: list[str]) -> Callable[[], tuple[str, str]]:
    # The tools lie beside our own interpreter, on PATH only when the environment is active.
    own = Path(sys.executable).parent / command[0]
    argv = [str(own), *command[1:]] if own.exists() else command

    def check() -> tuple[str, str]:
        try:
            done = subprocess.run(
                argv,
                check=False,
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TOOL_TIMEOUT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return "unknown", str(error)
        return ("pass" if done.returncode == 0 else "fail"), done.stdout.strip()

    return check


def shell_scripts(root: Path) -> list[str]:
    """Return the paths of the project's shell scripts, relative to its root."""
    found = (path.relative_to(root) for ending in ("sh", "bash") for path in root.rglob(f"*.{ending}"))
    return [*_SHELL_SCRIPTS, *sorted(str(path) for path in found if path.parts[0] not in _NOT_OURS)]


def check_locks(root: Path) -> tuple[str, str]:
    """Return whether the lock files hold what the lists ask for, and agree with each other."""
    locks = {name: _pins(root / f"{name}.lock") for name in ("requirements", "requirements-dev")}
    mistakes = []
    for name, pins in locks.items():
        missing = sorted(_wanted(root / f"{name}.in") - set(pins))
        mistakes += [f"{name}.lock lacks {package}, which {name}.in asks for" for package in missing]
    for package, version in locks["requirements"].items():
        other = locks["requirements-dev"].get(package)
        if other not in {None, version}:
            mistakes.append(f"{package} is {version} in requirements.lock and {other} in requirements-dev.lock")
    return ("fail", "\n".join(mistakes)) if mistakes else ("pass", "")


def _wanted(path: Path) -> set[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {_normal(line) for line in lines if line and line[0].isalpha()}


def _pins(path: Path) -> dict[str, str]:
    """Return every package's versions; one that depends on the Python version has several."""
    pins: dict[str, str] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", path.read_text(encoding="utf-8"), re.MULTILINE):
        pins[_normal(name)] = " ".join(filter(None, (pins.get(_normal(name)), version)))
    return pins


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", name, maxsplit=1)[0]).lower()
