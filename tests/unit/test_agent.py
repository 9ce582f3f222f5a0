"""What the agent's answers mean, with a connection that has them ready."""

import json

import pytest

from ironlease.agent import ANSWER_KEYS, Agent, AgentError, Archive, Privilege, PythonMissingError
from ironlease.errors import ExitCode, UsageError
from ironlease.ssh import Completed, Started, Target

REFUSAL = {
    "schema": "ironlease.refusal/1",
    "code": "disk-full",
    "error": "all of it",
    "found": "16 bytes are free.",
    "needed": "64 bytes.",
    "next": "df -h",
}


class Channel:
    closed = False

    def close(self):
        self.closed = True


class Connection:
    target = Target("node1", "203.0.113.11")

    def __init__(self, *completed, ended=False):
        self.completed = Completed(*completed)
        self.ended = ended
        self.channel = Channel()
        self.sent = None

    def run(self, command, *, stdin, timeout_seconds):
        self.sent = stdin
        return self.completed

    def start(self, command, stdin, *, timeout_seconds):
        self.sent = stdin
        return Started(self.channel, self.completed.output, self.completed if self.ended else None)


@pytest.fixture
def agent(tmp_path):
    (tmp_path / "agent.pyz").write_bytes(b"archive")

    def make(*completed, privilege=None, ended=False):
        connection = Connection(*completed, ended=ended)
        archive = Archive(tmp_path / "agent.pyz", "0" * 64)
        return Agent(connection, archive, privilege or Privilege.none()), connection

    return make


def test_the_request_follows_the_archive_and_sudos_password_comes_first(agent):
    asked, connection = agent(0, b'{"held": true}\n', b"", privilege=Privilege.sudo("tulip-99"))

    assert asked.ask("hold", {"b": 2}) == {"held": True}
    assert connection.sent == b'tulip-99\narchive{"b": 2}'


@pytest.mark.parametrize("command", sorted(ANSWER_KEYS))
def test_an_answer_without_what_is_made_of_it_is_none(agent, command):
    asked, _ = agent(0, json.dumps(dict.fromkeys(ANSWER_KEYS[command][1:])).encode(), b"")

    with pytest.raises(AgentError, match=f"`{command}` answered without {ANSWER_KEYS[command][0]}"):
        asked.ask(command)


@pytest.mark.parametrize(
    ("completed", "found"),
    [
        ((127, b"", b"sh: 1: /usr/bin/python3: not found"), "has no /usr/bin/python3"),
        ((1, b"", b"sudo: /usr/bin/python3: command not found"), "has no /usr/bin/python3"),
        ((1, b"", b"python-too-old 3.8.10\n"), "has Python 3.8.10"),
    ],
)
@pytest.mark.parametrize("how", ["ask", "start"])
def test_a_host_without_a_python_for_it(agent, completed, found, how):
    asked, _ = agent(*completed, ended=True)

    with pytest.raises(PythonMissingError, match=found):
        asked.ask("probe") if how == "ask" else asked.start("hold", {}, timeout_seconds=1)


@pytest.mark.parametrize("how", ["ask", "start"])
def test_a_refusal_keeps_its_code_and_its_parts(agent, how):
    asked, connection = agent(2, json.dumps(REFUSAL).encode() + b"\n", b"")

    with pytest.raises(UsageError) as caught:
        asked.ask("snapshot", {}) if how == "ask" else asked.start("hold", {}, timeout_seconds=1)

    error = caught.value
    assert (error.code, error.exit_code, error.host) == ("disk-full", ExitCode.USAGE, "node1")
    assert (error.found, error.needed) == ("node1: 16 bytes are free.", "64 bytes.")
    assert "df -h" in error.next_step
    assert connection.channel.closed is (how == "start")


@pytest.mark.parametrize("code", ["bad-input", "bad-command"])
def test_a_request_that_it_does_not_understand_is_a_mistake_of_ours(agent, code):
    asked, _ = agent(2, json.dumps(REFUSAL | {"code": code}).encode(), b"")

    with pytest.raises(AgentError) as caught:
        asked.ask("snapshot", {})

    assert caught.value.exit_code == ExitCode.CRASH


@pytest.mark.parametrize(
    "completed",
    [
        (1, b"", b"Traceback: it broke"),
        (0, b"no json", b""),
        (0, b"[1]", b""),
        (0, b"", b""),
        pytest.param((0, b"[" * 100_000, b"too deep"), id="too deep"),
        pytest.param((2, b'{"schema": "ironlease.refusal/1"}', b"half a refusal"), id="half a refusal"),
    ],
)
def test_everything_else_is_a_crash_with_its_words(agent, completed):
    asked, _ = agent(*completed)

    with pytest.raises(AgentError) as caught:
        asked.ask("probe")

    assert (completed[2] or completed[1] or b"nothing").decode() in caught.value.found


def test_a_command_that_goes_on_has_given_its_first_line(agent):
    asked, connection = agent(0, b'{"held": true}\n', b"")

    channel, answer = asked.start("hold", {"who": "me"}, timeout_seconds=1)

    assert (channel, answer) == (connection.channel, {"held": True})
    assert connection.sent == b'archive{"who": "me"}\n'
    assert not channel.closed
