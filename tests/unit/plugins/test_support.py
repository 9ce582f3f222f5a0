import os
import time
from pathlib import Path

from ansible.module_utils import ironlease_support as support

from ironlease import diagnose
from ironlease.runner import TaskEvent


def test_output_and_exit_status_come_back():
    ended = support.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10, {})

    assert ended.status == 3
    assert ended.output.splitlines() == ["out", "err"]


def test_the_environment_is_added_to_our_own(monkeypatch):
    monkeypatch.setenv("OURS", "1")

    assert support.run(["sh", "-c", "echo $OURS $ADDED"], 10, {"ADDED": "2"}).output == "1 2\n"


def test_the_hosts_language_does_not_reach_a_program(monkeypatch):
    monkeypatch.setenv("LANGUAGE", "de_DE:de")

    assert support.run(["sh", "-c", 'echo "[$LANGUAGE]"'], 10, {"LC_ALL": "C.UTF-8"}).output == "[]\n"


def test_a_program_is_stopped_at_its_limit_with_all_that_it_started(tmp_path):
    pid_file = tmp_path / "pid"
    started = time.monotonic()

    ended = support.run(["sh", "-c", f"sleep 60 & echo $! > {pid_file}; echo begun; wait"], 0.5, {})

    assert ended == support.Ended(None, "begun\n")
    assert time.monotonic() - started < 30
    state = _state_of(int(pid_file.read_text()))
    assert state in {None, "Z"}


def _state_of(pid):
    """The state of a process, None when it is gone; init may not have collected it yet."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return None
        if state == "Z":
            return state
        time.sleep(0.05)
    return state


def test_words_are_the_wanted_lines_or_the_last_ones():
    ended = support.Ended(1, "Reading...\nW: first\nE: second\nDone\n\n")

    assert ended.words(("E:", "W:")) == "W: first\nE: second"
    assert ended.words(("ERROR",)) == "Reading...\nW: first\nE: second\nDone"
    assert support.Ended(1, "").words() == "it printed nothing"
    assert len(support.Ended(1, "line\n" * 99).words().splitlines()) == support.WORDS_LINES


def test_the_control_side_reads_a_refusal_back():
    refusal = support.RefusalError(found="One\nline more", needed="Two.", next_step="Three.")
    event = TaskEvent("h", "failed", "r", "t", "m", results=({"failed": True, "msg": refusal.message()},))

    (error,) = diagnose.explain(event)

    assert (error.found, error.needed, error.next_step) == ("One line more", "Two.", "Three.")


def test_a_process_is_named_by_its_command():
    assert support.process_name(os.getpid()).startswith(f"process {os.getpid()} (")
    assert support.process_name(2**22 + 1) == f"process {2**22 + 1}"
