"""Fixture trees that look like a host's root, and tools that answer with captured text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ironlease_node.host import Host
from ironlease_node.tools import FAILED, NOT_FOUND, OK, TIMED_OUT, Command, Outcome

DATA = Path(__file__).resolve().parents[2] / "data" / "node"


class FakeTools:
    """Answers for programs by their names; a program without an answer is not installed."""

    def __init__(self, answers: dict[str, str | Outcome] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[list[str]] = []

    def run(self, argv: list[str], timeout_seconds: float = 5.0) -> Outcome:
        self.asked.append(argv)
        tool = argv[0].rpartition("/")[2]
        given = self.answers.get(tool)
        if given is None:
            return Outcome(tool, NOT_FOUND)
        return given if isinstance(given, Outcome) else Outcome(tool, OK, 0, given, "")

    def run_all(self, commands: dict[str, Command]) -> dict[str, Outcome]:
        return {name: self.run(command.argv, command.timeout_seconds) for name, command in commands.items()}

    def fails(self, tool: str, returncode: int, stderr: str = "", stdout: str = "") -> None:
        self.answers[tool] = Outcome(tool, FAILED, returncode, stdout, stderr)

    def hangs(self, tool: str) -> None:
        self.answers[tool] = Outcome(tool, TIMED_OUT, timeout_seconds=5.0)


def plant(root: Path, text: str) -> Path:
    """Write the files of a `.tree` text below ``root``."""
    for part in text.split("### ")[1:]:
        head, _, content = part.partition("\n")
        path, arrow, target = head.partition(" -> ")
        path, bytes_mark, _ = path.partition(" (bytes)")
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if arrow:
            place.symlink_to(target)
        elif bytes_mark:
            place.write_bytes(content.strip().encode().decode("unicode_escape").encode("latin-1"))
        else:
            place.write_text(content, encoding="utf-8")
    return root


@pytest.fixture
def data() -> Callable[[str], str]:
    return lambda name: (DATA / name).read_text(encoding="utf-8")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root of an empty host."""
    place = tmp_path / "root"
    place.mkdir()
    return place


@pytest.fixture
def plant_files(root: Path) -> Callable[..., Path]:
    """Write files given as `path=content` pairs below the root."""

    def write(files: dict[str, str | bytes]) -> Path:
        for path, content in files.items():
            place = root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        return root

    return write


@pytest.fixture
def gpu_server(root: Path, data: Callable[[str], str]) -> Host:
    """The host of gpu-server.tree, read as root."""
    return Host(plant(root, data("gpu-server.tree")), effective_uid=0, architecture="x86_64")


@pytest.fixture
def tools(data: Callable[[str], str]) -> FakeTools:
    """The tools of that host."""
    return FakeTools(
        {
            "apt-config": 'APT::Periodic::Unattended-Upgrade="1"\n',
            "ip": data("ip-address.json"),
            "lsblk": data("lsblk.json"),
            "python3": "3.10.12 False\n",
            "stat": "4096 1000 250\n",
            "systemctl": data("systemctl-show.txt"),
            "systemd-detect-virt": Outcome("systemd-detect-virt", FAILED, 1, "none\n", ""),
            "timedatectl": data("timedatectl-show.txt"),
        }
    )


@pytest.fixture
def no_tools() -> FakeTools:
    return FakeTools()


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Return whether a process has ended, or does so within a few seconds; a zombie has."""

    def look(pid: int) -> bool:
        for _ in range(50):
            try:
                if Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z":
                    return True
            except OSError:
                return True
            time.sleep(0.1)
        return False

    return look
