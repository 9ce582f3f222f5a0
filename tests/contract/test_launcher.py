"""The launcher, with commands in place of uv, python3 and apt-get that record what they were asked for."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 60
TOOLS = (
    "cat",
    "chmod",
    "cmp",
    "cp",
    "env",
    "flock",
    "id",
    "mkdir",
    "mv",
    "readlink",
    "rm",
    "sed",
    "sleep",
    "tail",
    "timeout",
    "tr",
)
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]

UV = """\
echo "uv $*" >>"{log}"
[ ! -e "{folder}/uv-fails" ] || { echo "uv: no such index"; exit 1; }
: >"{folder}/uv-runs"
while [ -e "{folder}/uv-is-slow" ]; do sleep 0.05; done
if [ "$1" = venv ]; then
    for place; do :; done
    mkdir -p "$place/bin"
    printf '#!/bin/sh\\nshift\\nprintf "ran %%s\\\\n" "$*"\\n' >"$place/bin/python"
    chmod +x "$place/bin/python"
fi
"""
# Knows its own version, and whether it has the modules that Debian splits off.
PYTHON = """\
echo "python3 $*" >>"{log}"
case $* in
--version) echo Python 3.11.2 ;;
*realpath*) echo "{folder}/python3" ;;
esac
"""
OLD_PYTHON = """\
case $* in
--version) echo Python 3.9.2 ;;
*) exit 1 ;;
esac
"""


@dataclass
class Checkout:
    """A copy of the project's launcher and lists, and a PATH that holds only what a test puts there."""

    root: Path
    commands: Path
    shell: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def log(self) -> list[str]:
        path = self.commands / "log"
        return path.read_text().splitlines() if path.exists() else []

    def add_command(self, name: str, text: str) -> None:
        path = self.commands / name
        path.write_text(
            "#!/bin/sh\n" + text.replace("{log}", str(self.commands / "log")).replace("{folder}", str(self.commands))
        )
        path.chmod(0o755)

    def argv(self, *words: str, launcher: Path | None = None) -> list[str]:
        shell = shutil.which(self.shell)
        return [shell, *(["sh"] if self.shell == "busybox" else []), str(launcher or self.root / "invoke"), *words]

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": str(self.commands), "HOME": str(self.root)}

    def invoke(self, *words: str, launcher: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words, launcher=launcher),
            check=False,
            cwd=self.commands,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.argv(*words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def end(self) -> None:
        """End what a failed test left running."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=LIMIT_SECONDS)

    def is_whole(self) -> bool:
        return (self.root / ".venv" / "made-from" / "place").exists()


@pytest.fixture(params=SHELLS)
def checkout(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkout]:
    root = tmp_path / "a folder with spaces"
    commands = tmp_path / "commands"
    root.mkdir()
    commands.mkdir()
    for name in ("invoke", "requirements.lock", "requirements-dev.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    for tool in TOOLS:
        (commands / tool).symlink_to(shutil.which(tool))
    made = Checkout(root, commands, request.param)
    made.add_command("sh", f'exec {shutil.which("dash") or "/bin/sh"} "$@"\n')
    made.add_command("uv", UV)
    made.add_command("python3", PYTHON)
    yield made
    made.end()


def test_the_environment_is_made_once_and_the_words_are_handed_over(checkout: Checkout) -> None:
    first = checkout.invoke("provision", "--host", "a b")
    made = checkout.log
    second = checkout.invoke("provision", "--host", "a b")

    assert (first.returncode, first.stdout) == (0, "ran provision --host a b\n")
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert checkout.log == made
    installs = [line for line in made if line.startswith("uv pip install")]
    assert "--require-hashes" in installs[0]
    assert installs[0].endswith("requirements.lock")
    assert installs[-1].endswith(f"-e {checkout.root}")


def test_it_works_through_a_link_from_another_folder(checkout: Checkout) -> None:
    link = checkout.commands / "link"
    link.symlink_to(checkout.root / "invoke")

    assert checkout.invoke("status", launcher=link).stdout == "ran status\n"
    assert checkout.is_whole()


@pytest.mark.parametrize("task", ["test", "lint", "bench.provision"])
def test_what_developers_need_comes_with_the_task_that_needs_it(checkout: Checkout, task: str) -> None:
    checkout.invoke("status")
    assert not any("requirements-dev.lock" in line for line in checkout.log)

    checkout.invoke("--json", task)
    assert sum("requirements-dev.lock" in line for line in checkout.log) == 1
    # The development list brings the invoke library again, whose script must not win over ours.
    assert f"-e {checkout.root}" in checkout.log[-1]


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_changed_list_is_installed(checkout: Checkout, name: str) -> None:
    checkout.invoke("status")
    before = len(checkout.log)
    with (checkout.root / name).open("a") as handle:
        handle.write("# changed\n")

    checkout.invoke("status")
    news = checkout.log[before:]
    assert any(name in line or f"-e {checkout.root}" in line for line in news)
    assert not any(line.startswith("uv venv") for line in news)


def test_an_environment_elsewhere_or_without_its_interpreter_is_made_anew(checkout: Checkout) -> None:
    checkout.invoke("status")
    moved = checkout.root.with_name("moved")
    checkout.root.rename(moved)
    checkout.root = moved
    assert checkout.invoke("status").stdout == "ran status\n"
    assert sum(line.startswith("uv venv") for line in checkout.log) == 2

    (moved / ".venv" / "bin" / "python").unlink()
    assert checkout.invoke("status").stdout == "ran status\n"
    assert sum(line.startswith("uv venv") for line in checkout.log) == 3


def test_a_failed_installation_is_told_and_made_anew(checkout: Checkout) -> None:
    (checkout.commands / "uv-fails").touch()
    failed = checkout.invoke("status", "--json")

    assert failed.returncode == 4
    error = json.loads(failed.stdout)["errors"][0]
    assert ".venv.log" in error["found"]
    assert "uv: no such index" in failed.stderr
    assert not checkout.is_whole()

    (checkout.commands / "uv-fails").unlink()
    assert checkout.invoke("status").stdout == "ran status\n"


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_preparation_never_counts_as_whole(checkout: Checkout, number: signal.Signals) -> None:
    (checkout.commands / "uv-is-slow").touch()
    process = checkout.start("status")
    wait_until((checkout.commands / "uv-runs").exists)
    os.killpg(process.pid, number)
    _, stderr = process.communicate(timeout=LIMIT_SECONDS)

    if number is not signal.SIGKILL:
        assert process.returncode == 4
        assert "found:  Interrupted while preparing .venv." in stderr
    assert not checkout.is_whole()
    (checkout.commands / "uv-is-slow").unlink()
    assert checkout.invoke("status").stdout == "ran status\n"


def test_two_at_once_prepare_it_once(checkout: Checkout) -> None:
    (checkout.commands / "uv-is-slow").touch()
    first = checkout.start("status")
    wait_until((checkout.commands / "uv-runs").exists)
    second = checkout.start("status")
    ready, _, _ = select.select([second.stderr], [], [], 10)
    assert ready, "the second one said nothing"
    assert b"Another ./invoke is preparing .venv" in os.read(second.stderr.fileno(), 1000)
    (checkout.commands / "uv-is-slow").unlink()

    assert first.communicate(timeout=LIMIT_SECONDS)[0] == "ran status\n"
    assert second.communicate(timeout=LIMIT_SECONDS)[0] == "ran status\n"
    assert sum(line.startswith("uv venv") for line in checkout.log) == 1


def test_a_key_press_prepares_nothing(checkout: Checkout) -> None:
    pressed = checkout.invoke("--complete", "prov")

    assert (pressed.returncode, pressed.stdout, pressed.stderr) == (0, "", "")
    assert not (checkout.root / ".venv").exists()
    checkout.invoke("status")
    assert checkout.invoke("--complete", "prov").stdout == "ran --complete prov\n"


def test_an_old_python_is_refused(checkout: Checkout) -> None:
    (checkout.commands / "uv").unlink()
    checkout.add_command("python3", OLD_PYTHON)
    refused = checkout.invoke("status", "--json")

    assert refused.returncode == 2
    error = json.loads(refused.stdout)["errors"][0]
    assert error["found"] == "Python 3.9.2 on PATH."
    assert "3.11" in error["needed"]
    assert "apt-get install" in error["next"]
    assert "found:  Python 3.9.2" in refused.stderr


def test_uv_finds_a_python_where_there_is_none(checkout: Checkout) -> None:
    (checkout.commands / "python3").unlink()

    assert checkout.invoke("status").stdout == "ran status\n"
    assert "--python >=3.11" in checkout.log[0]


# Debian's python3 without python3-venv, until apt-get brings it.
BARE_PYTHON = """\
echo "python3 $*" >>"{log}"
case $* in
*realpath*) echo "{folder}/usr/bin/python3.11" ;;
*ensurepip*) [ -e "{folder}/has-venv" ] ;;
"-m venv"*)
    for place; do :; done
    mkdir -p "$place/bin"
    printf '#!/bin/sh\\ncase $1 in -m) exit 0 ;; esac\\nshift\\nprintf "ran %%s\\\\n" "$*"\\n' >"$place/bin/python"
    chmod +x "$place/bin/python"
    ;;
esac
"""
APT = """\
echo "apt-get $*" >>"{log}"
case $* in
*install*) : >"{folder}/has-venv" ;;
esac
"""


@pytest.fixture
def bare(checkout: Checkout) -> Checkout:
    """Return a checkout on a computer without uv and Python's venv module; its folder /usr is the test's own."""
    (checkout.commands / "uv").unlink()
    checkout.add_command("python3", BARE_PYTHON)
    launcher = checkout.root / "invoke"
    own = checkout.commands / "usr" / "bin"
    own.mkdir(parents=True)
    (own / "python3.11").symlink_to(checkout.commands / "python3")
    launcher.write_text(launcher.read_text().replace("#/usr/bin/", f"#{own}/"))
    return checkout


def test_debians_missing_module_is_installed(bare: Checkout) -> None:
    if os.geteuid() != 0:
        bare.add_command("sudo", '[ "$1" != -n ] || shift\nexec "$@"\n')
    bare.add_command("apt-get", APT)
    done = bare.invoke("status", "--json")

    assert (done.returncode, done.stdout) == (0, "ran status --json\n")
    assert "Installing the system package python3.11-venv" in done.stderr
    steps = [line for line in bare.log if line.startswith("apt-get")]
    assert [step.split()[-1] for step in steps] == ["update", "python3.11-venv"]


def test_without_apt_the_missing_module_is_refused(bare: Checkout) -> None:
    refused = bare.invoke("status")

    assert refused.returncode == 2
    assert "has no ensurepip module" in refused.stderr
    assert "apt-get install python3.11-venv" in refused.stderr


def test_without_root_the_missing_module_is_refused(bare: Checkout) -> None:
    bare.add_command("apt-get", APT)
    (bare.commands / "id").unlink()
    bare.add_command("id", "echo 1000\n")
    refused = bare.invoke("status")

    assert refused.returncode == 2
    assert "neither root nor sudo" in refused.stderr
    assert not any(line.startswith("apt-get") for line in bare.log)
