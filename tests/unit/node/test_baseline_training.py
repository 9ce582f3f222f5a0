"""The real training on a real torch: it passes, and it notices when the checkpoint is not what it should be."""

from __future__ import annotations

import fcntl
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from ironlease_node import baseline, environment
from ironlease_node.baseline import launch

PROJECT = Path(__file__).resolve().parents[3]
SYSTEM_PYTHON = Path("/usr/bin/python3")
INSTALL_TIMEOUT_SECONDS = 540
# The unprivileged user must be able to reach it, so not below root's home.
CACHE = Path("/var/cache/ironlease/tests") if os.geteuid() == 0 else Path.home() / ".cache/ironlease/tests"


def torch_version() -> str:
    stack = yaml.safe_load((PROJECT / "stacks" / "torch-cpu.yml").read_text(encoding="utf-8"))
    # The local part names a build of one index; the machine's own package index decides which build this is.
    return next(str(item["version"]) for item in stack["python"]["packages"] if item["name"] == "torch").partition("+")[
        0
    ]


@pytest.fixture(scope="session")
def torch_environment() -> Path:
    """An environment with torch, installed once from the machine's own package index and observed before use."""
    version = torch_version()
    path = CACHE / f"torch-{version}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if environment.observe_environment(path, {"torch": version}, SYSTEM_PYTHON):
            for command in (
                [str(SYSTEM_PYTHON), "-m", "venv", "--clear", str(path)],
                [str(path / "bin" / "pip"), "install", "--quiet", f"torch=={version}"],
            ):
                subprocess.run(command, check=True, timeout=INSTALL_TIMEOUT_SECONDS)
    return path


@pytest.fixture
def account() -> launch.Account:
    return launch.find_account("nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)


class Tampered(baseline.Training):
    """Does something to the checkpoint between the two phases."""

    def __init__(self, *arguments, tamper):
        super().__init__(*arguments)
        self._tamper = tamper

    def phase(self, name):
        if name == "resume":
            self._tamper(self.run_folder / "checkpoint.pt")
        return super().phase(name)


def with_torch(path: Path, statement: str):
    """Return a change of the checkpoint's content, made by torch itself."""

    def tamper(checkpoint: Path) -> None:
        script = (
            "import sys, torch; state = torch.load(sys.argv[1], weights_only=True);"
            f"{statement}; torch.save(state, sys.argv[1])"
        )
        subprocess.run([path / "bin" / "python", "-c", script, checkpoint], check=True, timeout=120)

    return tamper


def checks(evidence):
    return {check["name"]: check["verdict"] for check in evidence["checks"]}


def test_real_training_passes(torch_environment, account):
    evidence = baseline.Training(torch_environment, account, 2, 300).prove()

    assert evidence["verdict"] == "pass", evidence
    assert set(checks(evidence).values()) == {"pass"}
    for phase in ("train", "resume"):
        assert evidence[phase]["world_size"] == 2
        assert evidence[phase]["uid"] == account.uid
        assert evidence[phase]["torch"].partition("+")[0] == torch_version()
        assert evidence[phase]["last_step"] == baseline.STEPS + baseline.CONTINUE_STEPS
    assert evidence["train"]["backend"] in {"gloo", "nccl"}
    assert len(evidence["train"]["losses"]) == baseline.STEPS
    # It learns by far more than the judge asks for, or the limit would be a coin toss.
    assert evidence["train"]["losses"][-1] < 0.1 * evidence["train"]["losses"][0]


def test_half_a_checkpoint_fails(torch_environment, account):
    def cut(checkpoint: Path) -> None:
        os.truncate(checkpoint, checkpoint.stat().st_size // 2)

    evidence = Tampered(torch_environment, account, 2, 300, tamper=cut).prove()

    assert evidence["verdict"] == "fail"
    assert evidence["reason"].startswith("phase resume: it ended with exit status")
    assert "Error" in evidence["log_tail"]


@pytest.mark.parametrize(
    "statement",
    [
        "state['optimizer']['state'] = {}",
        # Swapping the two would change nothing: it is the sum over the ranks that trains.
        "state['random'][1] = state['random'][0]",
    ],
    ids=["the-optimizer", "one-ranks-random-state"],
)
def test_checkpoint_that_lacks_something_fails(torch_environment, account, statement):
    tamper = with_torch(torch_environment, statement)

    evidence = Tampered(torch_environment, account, 2, 300, tamper=tamper).prove()

    assert evidence["verdict"] == "fail", evidence
    # The parameters are whole: only going on from there shows what is missing.
    assert {name for name, verdict in checks(evidence).items() if verdict == "fail"} == {"continues"}


def test_no_rank_outlives_torchrun(torch_environment, account, tmp_path, is_gone):
    """When torchrun is killed outright, nobody is left to end its workers."""
    folder = tmp_path / "work"
    folder.mkdir()
    tmp_path.chmod(0o755)
    os.chown(folder, account.uid, account.gid)
    script = Path(baseline.__file__).parents[1] / "training" / "ddp.py"
    copy = tmp_path / "ddp.py"
    copy.write_bytes(script.read_bytes())
    # So many steps that only the kill can end it.
    arguments = ["--phase=train", f"--folder={folder}", "--steps=10000000", "--continue-steps=1"]
    command = launch.build_command(torch_environment, 2, copy, [*arguments, "--time-limit-seconds=120"])
    process = subprocess.Popen(
        command,
        env=launch.build_environment(torch_environment, account, folder),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
    )
    try:
        workers = _wait_for_workers(process.pid, 2)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        assert all(is_gone(pid) for pid in workers)
    finally:
        launch.end(process)


def _wait_for_workers(pid: int, count: int) -> list[int]:
    """Return the ranks once each has asked to end with its parent: it is then computing."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        workers = [child for child in launch.descendants(pid) if b"ddp.py" in _command_line(child)]
        busy = [child for child in workers if _cpu_seconds(child) > 2]
        if len(busy) == count:
            return busy
        time.sleep(0.2)
    raise AssertionError("the ranks did not start")


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _cpu_seconds(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
