"""Cut off in the middle: the network, the host, the person at the keyboard; and two who want the same host."""

import contextlib
import getpass
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

ENVIRONMENT = "/opt/ironlease/envs/torch-cpu"
# Silence is noticed and hosts are given up sooner than real ones, so that the tests are short.
IMPATIENT = {"IRONLEASE_SILENCE_SECONDS": "4"}


@pytest.fixture
def stalled(bench, tmp_path):
    """A workshop in which provisioning lab1 comes to the environment and waits there: a file of it is missing, and
    somebody else holds it.
    """
    bench.inside(
        "lab1",
        f"rm {ENVIRONMENT}/lib/python3*/site-packages/filelock/__init__.py; "
        f"systemd-run --quiet --unit=holder flock {ENVIRONMENT} sleep 600; "
        f"while flock --nonblock {ENVIRONMENT} true; do sleep 0.1; done",
    )
    bench.environment["TMPDIR"] = str(tmp_path)
    yield bench
    del bench.environment["TMPDIR"]


@contextlib.contextmanager
def in_the_middle(desk, **environment):
    with desk.running("provision", "--host", "lab1", **environment) as command:
        command.wait_until_it_says("lab1: pytorch")
        time.sleep(1)
        yield command


def let_go(desk):
    desk.inside("lab1", "systemctl stop holder.service 2>/dev/null || true")


def ours(desk):
    """Return the processes of this computer that work for the desk, but not the lab's hosts."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(desk.runs).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def require_completion(desk):
    """A plain run completes, and one more changes nothing."""
    let_go(desk)
    completed = desk.provision("lab1")
    again = desk.provision("lab1")
    assert completed.exit_code == 0, completed.stderr
    assert completed.host("lab1")["verdict"] == "pass"
    assert (again.exit_code, again.host("lab1")["changed"], again.host("lab1")["observed"]) == (0, 0, True)


def test_ctrl_c_ends_everything_of_ours_at_once_and_the_next_run_goes_on(stalled, tmp_path):
    with in_the_middle(stalled) as command:
        pressed = time.monotonic()
        command.press_ctrl_c()
        ended = command.end()

    assert time.monotonic() - pressed < 15
    assert (ended.exit_code, ended.codes()) == (4, ["interrupted"])
    assert "Run the same command again" in ended.json["errors"][0]["next"]
    assert "Traceback" not in ended.stderr
    assert ours(stalled) == []
    assert list(tmp_path.iterdir()) == []
    require_completion(stalled)


def test_kill_9_leaves_nothing_running_and_no_lock(stalled, tmp_path, eventually):
    with in_the_middle(stalled) as command:
        command.process.kill()
        command.process.wait(10)

    eventually(lambda: not ours(stalled), 20)
    eventually(lambda: not list(tmp_path.iterdir()), 20)
    require_completion(stalled)


def test_the_second_of_two_is_told_who_is_there_and_harms_nobody(stalled):
    with in_the_middle(stalled) as command:
        second = stalled.provision("lab1")
        let_go(stalled)
        first = command.end()

    (error,) = second.json["errors"]
    assert (second.exit_code, error["code"]) == (4, "host-busy")
    assert f"{getpass.getuser()}@" in error["found"]
    assert "`invoke provision`" in error["found"]
    assert first.exit_code == 0, first.stderr


def test_a_network_that_comes_back_is_waited_for(stalled):
    with in_the_middle(stalled, **IMPATIENT) as command:
        stalled.cut_network("lab1")
        command.wait_until_it_says("lab1: connection")
        stalled.mend_network("lab1")
        let_go(stalled)
        ended = command.end()

    assert ended.exit_code == 0, ended.stderr
    assert (ended.host("lab1")["verdict"], ended.host("lab1")["reboots"]) == ("pass", 0)


def test_a_network_that_stays_away_ends_the_run_and_not_the_work(stalled):
    with in_the_middle(stalled, IRONLEASE_RECONNECT_SECONDS="2", **IMPATIENT) as command:
        stalled.cut_network("lab1")
        ended = command.end()
    stalled.mend_network("lab1")

    (error,) = ended.json["errors"]
    assert (ended.exit_code, error["code"]) == (4, "connection-lost")
    assert "pytorch" in error["found"]
    assert "goes on where this one stopped" in error["next"]
    assert ours(stalled) == []
    require_completion(stalled)


@pytest.mark.parametrize("how", ["reboot", "power cut"])
def test_a_host_that_reboots_in_the_middle_is_waited_for(stalled, how):
    with in_the_middle(stalled, **IMPATIENT) as command:
        if how == "reboot":
            stalled.inside("lab1", "systemctl reboot -ff || true")
        else:
            stalled.lab.power_cut("lab1")
            command.wait_until_it_says("lab1: connection")
            stalled.lab.power_on("lab1")
        ended = command.end()

    assert ended.exit_code == 0, ended.stderr
    assert (ended.host("lab1")["verdict"], ended.host("lab1")["reboots"]) == ("pass", 1)


def test_hosts_that_cannot_be_reached_are_named_and_the_others_finish(workshop):
    names = ["lab1", "lab2", "lab3", "lab4"]
    workshop.lab.reset(names, layer="provisioned")
    workshop.inside("lab2", "systemctl stop ssh")
    workshop.inside("lab3", "systemctl kill --signal=STOP --kill-whom=main ssh")
    workshop.cut_network("lab4")

    ended = workshop.provision(*names)
    workshop.inside("lab2", "systemctl start ssh")
    mended = workshop.provision("lab2")
    workshop.lab.down(["lab2", "lab3", "lab4"])

    assert ended.exit_code == 3
    assert {error["host"]: error["code"] for error in ended.json["errors"]} == {
        "lab2": "port-closed",
        "lab3": "timeout",
        "lab4": "timeout",
    }
    assert (ended.host("lab1")["verdict"], ended.host("lab1")["failed"]) == ("pass", 0)
    assert "1 of 4 hosts provisioned and proved." in ended.stderr
    assert mended.exit_code == 0, mended.stderr


def test_a_host_that_fails_in_the_play_does_not_stop_the_other(workshop):
    workshop.lab.reset(["lab1", "lab2"], layer="provisioned")
    workshop.inside("lab1", "rm /etc/security/limits.d/90-ironlease.conf")
    workshop.inside("lab2", "dpkg --purge chrony > /dev/null 2>&1; rm -r /etc/apt/sources.list*")

    ended = workshop.provision("lab1", "lab2")
    workshop.lab.down(["lab2"])

    assert ended.exit_code == 2
    assert {error["host"]: error["code"] for error in ended.json["errors"]} == {"lab2": "package-missing"}
    assert (ended.host("lab1")["verdict"], ended.host("lab1")["changed"]) == ("pass", 1)
    assert (ended.host("lab2")["verdict"], ended.host("lab2")["failed"]) == ("fail", 1)
