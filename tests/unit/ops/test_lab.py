"""`invoke lab.*` over a lab that only remembers what it was asked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ironlease.console import Console, Table
from ironlease.errors import ExitCode, UnfinishedError, UsageError
from ironlease.lab.lab import LabHost
from ironlease.ops import lab
from ironlease.ops.context import Context

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


class RememberingLab:
    hosts = {"lab1": "10.77.0.11", "lab2": "10.77.0.12"}  # noqa: RUF012 - read only

    def __init__(self, *command: str) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self._command = list(command)

    def ssh_command(self, host: str) -> list[str]:
        return self._command

    def up(self, hosts: Any, **options: Any) -> None:
        self.calls.append(("up", hosts, options))

    def down(self, hosts: Any, **options: Any) -> None:
        self.calls.append(("down", hosts, options))

    def reset(self, hosts: Any, **options: Any) -> None:
        self.calls.append(("reset", hosts, options))

    def list(self) -> list[LabHost]:
        return [
            LabHost("lab1", "10.77.0.11", "running", NOW - timedelta(minutes=65)),
            LabHost("lab2", "10.77.0.12", "off", None, profile="8x-h100", simulated=True),
        ]


@pytest.fixture
def remembering(context: Context, monkeypatch: pytest.MonkeyPatch) -> RememberingLab:
    # The lab's own command would come here; a shell stands for the host.
    made = RememberingLab("sh", "-c")
    monkeypatch.setattr(lab, "_lab", lambda context: made)
    context.clock = lambda: NOW
    return made


def test_all_hosts_are_meant_when_none_is_named(context: Context, remembering: RememberingLab) -> None:
    lab.up(context, host=[], route_out=True)
    lab.up(context, host=["lab1"], route_out=False)
    lab.down(context, host=[], purge=False)
    lab.reset(context, host=["lab2"], route_out=True)

    assert remembering.calls == [
        ("up", None, {"route_out": True}),
        ("up", ["lab1"], {"route_out": False}),
        ("down", None, {"purge": False}),
        ("reset", ["lab2"], {"route_out": True}),
    ]


def test_the_list_says_what_is_simulated(context: Context, remembering: RememberingLab) -> None:
    result = lab.list_hosts(context)

    (table,) = result.lines
    assert isinstance(table, Table)
    assert table.rows == [
        ("lab1", "10.77.0.11", "running", "1 h 5 min", "this computer's"),
        ("lab2", "10.77.0.12", "off", "", "SIMULATED: 8x-h100"),
    ]
    assert result.summary == "1 of 2 running."
    assert result.data["hosts"]["lab2"]["booted_since"] is None


@pytest.mark.parametrize(
    ("command", "code"),
    [("echo out; echo err >&2", ExitCode.OK), ("exit 3", ExitCode.FAIL), ("exit 255", ExitCode.UNREACHABLE)],
)
def test_a_command_on_a_host(context: Context, remembering: RememberingLab, command: str, code: ExitCode) -> None:
    result = lab.ssh(context, host="lab1", command=command)

    assert remembering.calls == [("up", ["lab1"], {})]
    assert result.exit_code is code
    if code is ExitCode.OK:
        assert (result.data["stdout"], result.data["stderr"]) == ("out\n", "err\n")
        assert list(result.lines) == ["out"]


def test_a_command_without_end_is_ended(
    context: Context, remembering: RememberingLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab, "COMMAND_TIMEOUT_SECONDS", 0.5)
    with pytest.raises(UnfinishedError):
        lab.ssh(context, host="lab1", command="exec sleep 30")


def test_a_shell_needs_a_person(context: Context, remembering: RememberingLab) -> None:
    with pytest.raises(UsageError, match="neither a terminal"):
        lab.ssh(context, host="lab1", command=None)

    assert remembering.calls == []


def test_a_shell_for_a_person(context: Context, remembering: RememberingLab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Console, "interactive", property(lambda self: True))
    remembering._command = ["true"]

    assert lab.ssh(context, host="lab1", command=None).exit_code is ExitCode.OK
    context.json = True
    with pytest.raises(UsageError):
        lab.ssh(context, host="lab1", command=None)
