"""The supervisor, with real processes: what it runs ends with its owner, wherever it has hidden."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ironlease.runner import SUPERVISOR

# A child in the same group, one that left for a session of its own, and an orphan of that kind, as ssh's masters are.
FAMILY = """
import os, subprocess, sys, time
folder = sys.argv[1]
def note(name, process): open(f"{folder}/{name}.pid", "w").write(str(process))
note("child", subprocess.Popen(["sleep", "300"]).pid)
note("session", subprocess.Popen(["sleep", "301"], start_new_session=True).pid)
forget = (
    "import subprocess; nowhere = subprocess.DEVNULL; "
    "print(subprocess.Popen(['sleep', '302'], stdout=nowhere, stderr=nowhere, start_new_session=True).pid)"
)
note("orphan", subprocess.run([sys.executable, "-c", forget], capture_output=True, text=True).stdout.strip())
note("all", 0)
time.sleep(300)
"""


@pytest.fixture
def leash(tmp_path):
    """The supervisor's folder with the leash in it, and the end that the owner holds."""
    folder = tmp_path / "private"
    folder.mkdir()
    os.mkfifo(folder / "leash")
    descriptor = os.open(folder / "leash", os.O_RDWR | os.O_CLOEXEC)
    yield folder / "leash", descriptor
    with contextlib.suppress(OSError):
        os.close(descriptor)


def supervised(leash, *command):
    return subprocess.Popen([sys.executable, "-IS", str(SUPERVISOR), str(leash), *command], start_new_session=True)


def family(leash, folder):
    process = supervised(leash, sys.executable, "-c", FAMILY, str(folder))
    until((folder / "all.pid").exists)
    return process, [int((folder / f"{name}.pid").read_text()) for name in ("child", "session", "orphan")]


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("command", "status"), [(["true"], 0), (["sh", "-c", "exit 7"], 7), (["no-such-program"], 127)]
)
def test_the_exit_status_is_the_commands(leash, command, status):
    assert supervised(leash[0], *command).wait(timeout=20) == status


def test_a_command_that_a_signal_ends_is_told_as_a_shell_tells_it(leash):
    assert supervised(leash[0], "sh", "-c", "kill -9 $$").wait(timeout=20) == 128 + signal.SIGKILL


def test_what_is_left_when_the_command_has_ended_ends_too(leash, tmp_path):
    script = f"setsid sleep 303 & echo $! > {tmp_path}/left.pid"
    assert supervised(leash[0], "sh", "-c", script).wait(timeout=20) == 0

    assert not is_running(int((tmp_path / "left.pid").read_text()))


def test_when_the_owner_asks_all_of_them_end_and_its_folder_stays(leash, tmp_path):
    process, members = family(leash[0], tmp_path)
    assert all(map(is_running, members))

    os.write(leash[1], b"x")

    assert process.wait(timeout=20) == 128 + signal.SIGTERM
    assert not any(map(is_running, members))
    assert leash[0].exists()


def test_when_the_owner_is_gone_all_of_them_end_and_its_folder_is_removed(leash, tmp_path):
    process, members = family(leash[0], tmp_path)

    os.close(leash[1])

    assert process.wait(timeout=20) == 128 + signal.SIGTERM
    assert not any(map(is_running, members))
    assert not leash[0].parent.exists()


def test_an_owner_that_was_gone_before_the_start_is_noticed(leash):
    os.close(leash[1])

    assert supervised(leash[0], "sleep", "300").wait(timeout=20) == 128 + signal.SIGTERM


def test_what_does_not_obey_is_killed(leash, tmp_path):
    stubborn = f"trap '' TERM; echo $$ > {tmp_path}/stubborn.pid; while true; do sleep 1; done"
    process = supervised(leash[0], "sh", "-c", stubborn)
    until(lambda: (tmp_path / "stubborn.pid").exists() and (tmp_path / "stubborn.pid").read_text().strip())

    os.write(leash[1], b"x")

    assert process.wait(timeout=20) == 128 + signal.SIGTERM
    assert not is_running(int((tmp_path / "stubborn.pid").read_text()))
