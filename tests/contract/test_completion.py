"""The tab key in real shells."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 30
# What makes each shell start without the user's own settings.
SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], ""),
    "zsh": (["-f", "-i"], "autoload -U compinit; compinit -u; "),
    "fish": (["--no-config", "--interactive"], ""),
}
# The real program answers the shell's questions; a finished line is written down instead of run.
PROGRAM = """\
#!/bin/sh
case $1 in
--complete | --print-completion-script*)
    exec "{python}" -c 'from ironlease.cli.program import main; main()' "$@" ;;
esac
printf '%s\\n' "$*" >"{folder}/line.part"
mv "{folder}/line.part" "{folder}/line"
"""


def installed(name: str) -> object:
    missing = shutil.which(name) is None
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason=f"{name} is not installed"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a program called invoke, as the launcher or the environment gives one."""
    folder = tmp_path_factory.mktemp("completion")
    program = folder / "invoke"
    program.write_text(PROGRAM.format(python=sys.executable, folder=folder))
    program.chmod(0o755)
    (folder / "runs" / "20260101T000000Z-provision").mkdir(parents=True)
    return folder


@pytest.fixture(scope="module", params=["bash", installed("zsh"), installed("fish")])
def press_tab(request: pytest.FixtureRequest, folder: Path) -> Iterator[Callable[[str], str]]:
    """Return what types words and the tab key into a shell, and gives the line that this made."""
    arguments, settings = SHELLS[request.param]
    environment = {
        "HOME": str(folder),
        "IRONLEASE_RUNS_DIR": str(folder / "runs"),
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "TERM": "dumb",
    }
    script = f"./invoke --print-completion-script={request.param}"
    load = f"{script} | source" if request.param == "fish" else f"source <({script})"
    line = folder / "line"

    def type_and_press(words: str) -> str:
        line.unlink(missing_ok=True)
        process.send(f"{words}\t")
        # The shell reads what is typed next only after it has completed.
        process.send("\n")
        return wait_for(line, process)

    line.unlink(missing_ok=True)
    with pexpect.spawn(request.param, arguments, cwd=folder, env=environment, timeout=LIMIT_SECONDS) as process:
        process.sendline(f"{settings}{load}; ./invoke loaded")
        assert wait_for(line, process) == "loaded"
        yield type_and_press


def wait_for(line: Path, process: pexpect.spawn) -> str:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not line.exists():
        assert time.monotonic() < deadline, "the shell ran no command"
        # A shell whose output nobody reads stops at a full terminal.
        process.expect([pexpect.TIMEOUT, r"."], timeout=0.05)
    return line.read_text().rstrip()


@pytest.mark.parametrize(
    ("typed", "whole"),
    [
        ("./invoke provi", "provision"),
        ("invoke provi", "provision"),
        ("./invoke lab.res", "lab.reset"),
        ("./invoke provision --disa", "provision --disable-password-login"),
        ("./invoke stacks --no-c", "stacks --no-color"),
        ("./invoke lab.up --host lab3,lab4,la", "lab.up --host lab3,lab4,lab"),
        ("./invoke lab.up --host=lab1,lab2,lab3,l", "lab.up --host=lab1,lab2,lab3,lab4"),
        ("./invoke provision --stack torch-cu1", "provision --stack torch-cu128"),
        ("./invoke show --run 2026", "show --run 20260101T000000Z-provision"),
    ],
)
def test_the_tab_key_completes(press_tab: Callable[[str], str], typed: str, whole: str) -> None:
    assert press_tab(typed) == whole
