"""The provisioning lock, with real processes: it lives exactly as long as somebody holds the other end of stdin."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ironlease_node import hold
from ironlease_node.refusal import Refusal

# The lock's own folder belongs to the machine; tests use one of theirs.
SCRIPT = """
import json, sys
from pathlib import Path
from ironlease_node import hold
folder = Path(sys.argv[1])
hold.lock_path = lambda: folder / hold.LOCK_NAME
for name, value in json.loads(sys.argv[2]).items():
    setattr(hold, name, value)
hold.answer(json.loads(sys.stdin.readline()))
"""


@pytest.fixture
def start(tmp_path):
    started = []

    def run(who="anna@laptop", limits=None, silence_seconds=60, **options):
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), json.dumps(limits or {})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **options,
        )
        started.append(process)
        request = {"who": who, "command": "invoke provision --host x", "token": f"of {who}"}
        request["silence_seconds"] = silence_seconds
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        return process

    yield run
    for process in started:
        process.kill()
        process.wait(timeout=10)


def said(process):
    ready, _, _ = select.select([process.stdout], [], [], 20)
    assert ready, "it said nothing"
    return json.loads(process.stdout.readline())


def test_second_one_is_told_who_holds_it(start):
    first = start()
    assert said(first) == {"held": True}

    second = start(who="ben@desk")
    answer = said(second)

    assert answer["held"] is False
    assert answer["by"]["who"] == "anna@laptop"
    assert answer["by"]["command"] == "invoke provision --host x"
    assert answer["by"]["pid"] == first.pid
    assert answer["by"]["since"].endswith("Z")
    assert second.wait(timeout=10) == 0


def test_closing_stdin_frees_it(start):
    first = start()
    assert said(first)["held"]

    first.stdin.close()

    assert first.wait(timeout=10) == 0
    assert said(start())["held"]


def test_bytes_on_stdin_do_not_free_it(start):
    first = start()
    assert said(first)["held"]

    first.stdin.write(b"still here\n")
    first.stdin.flush()

    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(timeout=1)
    assert said(start("ben@desk"))["held"] is False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_death_of_the_holder_frees_it(start, number):
    first = start()
    assert said(first)["held"]

    first.send_signal(number)
    first.wait(timeout=10)

    # The dead one's text is still in the file: a file without a lock is no lock.
    assert said(start("ben@desk"))["held"]


def test_a_holder_that_hears_nothing_gives_it_back(start):
    first = start(silence_seconds=1)
    assert said(first)["held"]

    assert first.wait(timeout=10) == 0
    assert said(start("ben@desk"))["held"]


def test_a_byte_now_and_then_keeps_it_beyond_the_limit(start):
    first = start(silence_seconds=1.5)
    assert said(first)["held"]
    for _ in range(6):
        time.sleep(0.5)
        first.stdin.write(b"\n")
        first.stdin.flush()

    assert said(start("ben@desk"))["held"] is False
    assert first.poll() is None


def test_the_end_of_a_silent_holder_is_waited_for(start):
    first = start(silence_seconds=4)
    assert said(first)["held"]
    time.sleep(1.5)

    second = start("ben@desk", limits={"ALIVE_SECONDS": 1.0})

    assert said(second)["held"]
    assert first.wait(timeout=10) == 0


def test_an_earlier_holder_of_the_same_command_makes_way(start):
    first = start()
    assert said(first)["held"]

    second = start()

    assert said(second)["held"]
    assert first.wait(timeout=10) == -signal.SIGTERM


def test_a_process_that_only_has_the_holders_old_number_is_left_alone(start, tmp_path):
    first = start()
    assert said(first)["held"]
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        lock = tmp_path / "run" / hold.LOCK_NAME
        lock.write_text(json.dumps(json.loads(lock.read_text()) | {"pid": bystander.pid}))

        second = start(limits={"POLL_SECONDS": 0.05})

        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=1)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait(timeout=10)


def test_death_of_the_session_frees_it_even_when_stdin_stays_open(tmp_path):
    """The holder's parent dies, and somebody else keeps the other end of its stdin open."""
    read_end, write_end = os.pipe()
    os.write(write_end, b'{"who": "a", "command": "b", "token": "c", "silence_seconds": 60}\n')
    parent = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True)"
    session = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{parent}; import time; time.sleep(60)",
            sys.executable,
            "-c",
            SCRIPT,
            str(tmp_path),
            "{}",
        ],
        stdin=read_end,
        stdout=subprocess.PIPE,
    )
    try:
        # The two write to one pipe, in either order.
        lines = [json.loads(session.stdout.readline()) for _ in range(2)]
        assert {"held": True} in lines
        holder = next(line for line in lines if isinstance(line, int))
        session.kill()
        session.wait(timeout=10)
        assert _ends(holder, hold.PARENT_CHECK_SECONDS + 10)
    finally:
        session.kill()
        os.close(read_end)
        os.close(write_end)


def _ends(pid, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def test_unreadable_holder_is_still_a_holder(start, tmp_path):
    first = start()
    assert said(first)["held"]
    (tmp_path / "run" / hold.LOCK_NAME).write_text("{half")

    assert said(start("ben@desk")) == {"held": False, "by": {}}


def test_root_and_users_have_their_own_files(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert hold.lock_path() == Path("/run/ironlease/provision.lock")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/ml")
    assert hold.lock_path() == Path("/home/ml/.cache/ironlease/provision.lock")


def test_a_link_in_the_place_of_the_lock_is_refused(start, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "target").write_text("precious")
    (tmp_path / "run" / hold.LOCK_NAME).symlink_to(tmp_path / "target")

    process = start(stderr=subprocess.PIPE)

    assert process.wait(timeout=20) != 0
    assert b"Refusal" in process.stderr.read()
    assert (tmp_path / "target").read_text() == "precious"


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"who": "a", "command": "b", "silence_seconds": 60},
        {"command": "b", "token": "c", "silence_seconds": 60},
        {"who": "", "command": "b", "token": "c", "silence_seconds": 60},
        {"who": "a", "command": "b", "token": "c"},
        {"who": "a", "command": "b", "token": "c", "silence_seconds": 0},
    ],
)
def test_bad_request(request_):
    with pytest.raises(Refusal):
        hold.answer(request_)


def test_waiting_ends_with_the_parent():
    read_end, write_end = os.pipe()
    try:
        started = time.monotonic()
        hold.wait_for_end(read_end, os.getppid() + 1, 60.0, lambda: None)
        assert time.monotonic() - started < 1
    finally:
        os.close(read_end)
        os.close(write_end)
