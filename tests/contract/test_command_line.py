"""The command line as its users meet it: real processes, the real tasks."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ironlease.cli.declaration import Task
from ironlease.cli.program import Program, _load_tasks
from ironlease.errors import ExitCode
from ironlease.paths import Project

ROOT = Path(__file__).resolve().parents[2]
MAIN = "from ironlease.cli.program import main; main()"
PROGRAM = Program(Project(ROOT), _load_tasks(Project(ROOT)))
TASKS: list[Task] = [task for tasks in PROGRAM._groups.values() for task in tasks]
NAMES = [task.dotted_name for task in TASKS]
LIMIT_SECONDS = 60


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which nothing of this checkout is written to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("IRONLEASE_", "NO_COLOR"))}
    return {
        **kept,
        "PYTHONPATH": str(ROOT / "src"),
        "IRONLEASE_RUNS_DIR": str(tmp_path / "runs"),
        "IRONLEASE_STATE_DIR": str(tmp_path / "state"),
    }


@pytest.fixture
def invoke(environment: dict[str, str], tmp_path: Path):
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", MAIN, *words],
            check=False,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )

    return run


def the_one_object(stdout: str) -> dict:
    """Return what stdout holds, which must be one JSON object and nothing else."""
    document = json.loads(stdout)
    assert isinstance(document, dict)
    return document


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([], ExitCode.OK),
        (["--list"], ExitCode.OK),
        (["--version"], ExitCode.OK),
        (["stacks"], ExitCode.OK),
        (["provison"], ExitCode.USAGE),
        (["provision", "--hots", "lab1"], ExitCode.USAGE),
        (["provision", "--host", "--yes"], ExitCode.USAGE),
        (["provision", "lab1"], ExitCode.USAGE),
        (["explain"], ExitCode.USAGE),
        (["show"], ExitCode.USAGE),
        (["init", "--host", "node1"], ExitCode.USAGE),
        (["lab.ssh", "--host", "lab1"], ExitCode.USAGE),
    ],
)
def test_exit_codes_and_a_pure_stdout(invoke, words: list[str], code: ExitCode) -> None:
    plain = invoke(*words)
    asked = invoke(*words, "--json")

    assert plain.returncode == asked.returncode == code
    assert the_one_object(asked.stdout)["ok"] is (code is ExitCode.OK)
    assert "Traceback" not in plain.stderr + asked.stderr
    if code is not ExitCode.OK:
        assert plain.stdout == ""
        for part in ("found:  ", "needed: ", "next:   "):
            assert part in plain.stderr


def test_it_works_from_any_folder_and_says_so_in_absolute_paths(invoke, tmp_path: Path) -> None:
    assert "torch-cpu" in invoke("stacks").stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_every_task_has_a_page_that_can_be_read(task: Task) -> None:
    assert re.fullmatch(r"[A-Z].*[.]", task.summary), task.summary
    assert len(task.summary) <= 80
    assert task.example.startswith(f"invoke {task.dotted_name}")
    for argument in task.flags:
        assert argument.flag.help, argument.names
        assert argument.kind is bool or argument.flag.value, f"--{argument.names[0]} does not name its value"


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_every_example_can_be_read(task: Task) -> None:
    import shlex

    from ironlease.cli.reader import Reader

    words = shlex.split(task.example)[1:]
    assert Reader(PROGRAM.initial_context, PROGRAM._contexts()).read(words).task == task.dotted_name


def test_lists_and_completion_load_nothing_heavy(environment: dict[str, str]) -> None:
    heavy = ["ansible", "ansible_runner", "paramiko", "pydantic", "ironlease.lab.lab", "ironlease.inventory"]
    for words in (["--list"], ["--complete", "lab.up", "--host", ""]):
        script = (
            "import atexit, sys\n"
            f"atexit.register(lambda: sys.stderr.write(repr([m for m in {heavy} if m in sys.modules])))\n{MAIN}"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, *words],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert (done.returncode, done.stderr) == (0, "[]")


def test_the_reference_names_every_task_and_flag() -> None:
    text = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `invoke ([a-z.]+)`\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))

    assert list(sections) == NAMES
    for task in TASKS:
        documented = set(re.findall(r"^\| `(--[a-z-]+)", sections[task.dotted_name], re.MULTILINE))
        assert documented == {f"--{argument.names[0]}" for argument in task.flags}, task.dotted_name


def test_the_reference_names_every_exit_code() -> None:
    text = (ROOT / "docs" / "reference" / "exit-codes.md").read_text(encoding="utf-8")

    assert [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)] == sorted(ExitCode)


def test_the_reader_of_the_output_may_go_away(environment: dict[str, str]) -> None:
    """`invoke --list | head -0`: no complaint, and the exit code is the command's own."""
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "--list"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(LIMIT_SECONDS) == ExitCode.OK


def test_a_closed_stdout_or_stderr_is_no_crash(environment: dict[str, str]) -> None:
    for closing in (">&-", "2>&-", ">&- 2>&-"):
        command = f'"$0" -c "$1" --list --json {closing}'
        done = subprocess.run(
            ["sh", "-c", command, sys.executable, MAIN],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert done.returncode == ExitCode.OK, (closing, done.stderr)


# A program with one task, whose body stands in place of BODY.
ONE_TASK = """
import subprocess, sys, time
from pathlib import Path
from types import ModuleType
from ironlease.cli.declaration import namespace_of, task
from ironlease.cli.delivery import interrupt_on_signals
from ironlease.cli.program import Program
from ironlease.paths import Project
from ironlease.ops.context import Context
from ironlease.ops.result import Result

@task(example="invoke work")
def work(context: Context) -> Result:
    '''Work.'''
    BODY
    return Result()

tasks = ModuleType("tasks")
tasks.GROUPS = {"Work": [work]}
tasks.namespace = namespace_of(tasks.GROUPS)
interrupt_on_signals()
Program(Project.here(), tasks).run(["invoke", "work", "--json"])
"""
SLEEPING = ONE_TASK.replace(
    "BODY",
    """try:
        Path(sys.argv[-1]).touch()
        time.sleep(60)
    finally:
        context.console.note("cleaned up")""",
)
TALKING = ONE_TASK.replace("BODY", "subprocess.run(['echo', 'a child talks'], check=True)")


def test_what_child_processes_print_is_not_on_stdout(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TALKING],
        check=False,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )

    assert the_one_object(done.stdout)["ok"] is True
    assert done.stderr == "a child talks\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_cleans_up_and_is_told_calmly(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    started = tmp_path / "started"
    with subprocess.Popen(
        [sys.executable, "-c", SLEEPING, str(started)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + LIMIT_SECONDS
        while not started.exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=LIMIT_SECONDS)

    assert process.returncode == ExitCode.UNFINISHED
    assert the_one_object(stdout)["errors"][0]["code"] == "interrupted"
    assert stderr.startswith("cleaned up\n")
    assert "Traceback" not in stderr


def test_colour_is_only_where_it_is_wanted(environment: dict[str, str]) -> None:
    red = "\x1b[1;31m"
    for words, variables, expected in (
        (["zzz"], {}, True),
        (["zzz", "--no-color"], {}, False),
        (["zzz"], {"NO_COLOR": "1"}, False),
    ):
        done = subprocess.run(
            # A terminal of its own, as script(1) makes it.
            ["script", "-qec", " ".join(["exec", sys.executable, "-c", f"'{MAIN}'", *words]), "/dev/null"],
            check=False,
            env={**environment, **variables, "TERM": "xterm-256color"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )
        assert (red in done.stdout) is expected, (words, variables, done.stdout)
