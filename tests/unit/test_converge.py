"""Taking a play up again, without Ansible: the runner is replaced by a script of the events of each attempt."""

from pathlib import Path

import pytest

from ironlease import converge, runner
from ironlease.errors import ExitCode
from ironlease.paths import Project
from ironlease.runner import Playbook, TaskEvent

COMMAND = "ansible.builtin.command"


def event(host, kind, **result):
    flags = {"failed": {"failed": True}, "unreachable": {"unreachable": True}}.get(kind, {})
    results = ({**flags, **result},) if flags or result else ()
    return TaskEvent(host, kind, "role", "task", COMMAND, results=results)


def done(host):
    return [event(host, "ok", changed=True), event(host, "ended")]


def unreachable(host):
    return [event(host, "ok"), event(host, "unreachable", msg="Failed to connect"), event(host, "ended")]


def crashed(host):
    return [event(host, "failed", msg="MODULE FAILURE: killed by signal 9"), event(host, "ended")]


@pytest.fixture
def play(monkeypatch):
    """Return a function that converges: one list of events for each attempt, and who comes back."""

    def run(*attempts, hosts=("node1",), back=lambda host: True, cancelled=lambda: False, status="failed"):
        tried = []

        def attempt(project, playbook, on_event, is_cancelled):
            tried.append(playbook.hosts)
            for one in attempts[len(tried) - 1]:
                on_event(one)
            return status

        monkeypatch.setattr(runner, "run", attempt)
        playbook = Playbook(Path("play.yml"), Path("inventory"), list(hosts))
        outcomes = converge.converge(
            Project(Path("/nowhere")),
            playbook,
            on_event=lambda _event, _outcome: None,
            wait_for_host=back,
            cancelled=cancelled,
        )
        return outcomes, tried

    return run


def test_a_play_that_came_to_its_end_is_finished(play):
    outcomes, tried = play(done("node1"))

    assert outcomes["node1"].finished
    assert tried == [["node1"]]


def test_a_play_that_stopped_without_a_word_is_not_finished(play):
    outcomes, _ = play([event("node1", "ok")])

    (failure,) = outcomes["node1"].failures
    assert (failure.code, failure.exit_code) == ("play-stopped", ExitCode.UNFINISHED)


def test_a_host_that_was_cut_off_goes_on_alone_and_what_it_changed_stays_counted(play):
    first = [*done("node1"), event("node2", "ok", changed=True), *unreachable("node2")]

    outcomes, tried = play(first, done("node2"), hosts=("node1", "node2"))

    assert tried == [["node1", "node2"], ["node2"]]
    assert all(outcome.finished for outcome in outcomes.values())
    assert outcomes["node2"].resumes == 1
    assert len(outcomes["node2"].changes) == 2


def test_a_host_that_stays_away_is_given_up_and_the_others_are_not(play):
    first = [*unreachable("node1"), *unreachable("node2")]

    outcomes, tried = play(first, done("node2"), hosts=("node1", "node2"), back=lambda host: host == "node2")

    (failure,) = outcomes["node1"].failures
    assert (failure.code, failure.exit_code) == ("connection-lost", ExitCode.UNFINISHED)
    assert "Failed to connect" in failure.found
    assert tried[1] == ["node2"]
    assert outcomes["node2"].finished


def test_a_host_that_is_lost_again_and_again_is_given_up(play):
    attempts = 1 + converge.MAX_RESUMES

    outcomes, tried = play(*[unreachable("node1")] * attempts)

    assert len(tried) == attempts
    assert [failure.code for failure in outcomes["node1"].failures] == ["connection-lost"]


def test_a_module_that_dies_although_the_host_is_there_speaks_for_itself(play):
    outcomes, _ = play(*[crashed("node1")] * (1 + converge.MAX_RESUMES))

    (failure,) = outcomes["node1"].failures
    assert failure.code == "task-failed"
    assert "killed by signal 9" in failure.found


def test_a_module_that_died_with_its_host_is_a_lost_connection(play):
    outcomes, _ = play(crashed("node1"), back=lambda host: False)

    assert [failure.code for failure in outcomes["node1"].failures] == ["connection-lost"]


def test_ctrl_c_is_told_for_each_host_that_had_not_finished(play):
    first = [*done("node1"), event("node2", "ok"), *unreachable("node3")]
    waited = []

    outcomes, _ = play(first, hosts=("node1", "node2", "node3"), back=waited.append, cancelled=lambda: True)

    assert outcomes["node1"].finished
    assert [outcomes[name].failures[0].code for name in ("node2", "node3")] == ["interrupted", "interrupted"]
    assert "at your word" in outcomes["node2"].failures[0].found
    assert waited == []


def test_ctrl_c_while_waiting_for_a_host_ends_the_waiting(play):
    waited = []

    outcomes, tried = play(unreachable("node1"), back=waited.append, cancelled=lambda: bool(waited))

    assert tried == [["node1"]]
    assert [failure.code for failure in outcomes["node1"].failures] == ["interrupted"]


def test_a_play_that_takes_too_long_is_not_taken_up_again(play):
    outcomes, tried = play(unreachable("node1"), status="timeout")

    (failure,) = outcomes["node1"].failures
    assert (failure.code, len(tried)) == ("interrupted", 1)
    assert "took too long" in failure.found


def test_a_failure_is_not_repeated(play):
    outcomes, tried = play([event("node1", "failed", msg="no such thing"), event("node1", "ended")])

    assert [failure.code for failure in outcomes["node1"].failures] == ["task-failed"]
    assert len(tried) == 1
