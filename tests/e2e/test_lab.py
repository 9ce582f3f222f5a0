"""The lab's hosts are real machines: they boot, reboot, fail, and are reached from nowhere but their own network."""

import array
import contextlib
import os
import socket
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from ironlease.lab import connect
from ironlease.lab.errors import LabError, LabUnavailableError
from ironlease.lab.inheritance import read_inheritance
from ironlease.lab.instance import Instance, default_name
from ironlease.lab.inventory import read_lab_hosts
from ironlease.lab.lab import Lab
from ironlease.lab.preconditions import check
from ironlease.paths import Project

pytestmark = pytest.mark.lab

PROJECT = Project.here()
HOSTS = read_lab_hosts(PROJECT.inventories / "lab" / "hosts.yml")
FOUR_HOSTS_SECONDS = 15.0


@contextlib.contextmanager
def running_lab(name):
    try:
        check()
    except LabUnavailableError as refused:
        pytest.skip(f"{refused.found} Needed: {refused.needed}")
    lab = Lab(Instance(name), HOSTS)
    try:
        yield lab
    finally:
        lab.down()


@pytest.fixture(scope="module")
def shared():
    with running_lab(f"t{os.getpid()}") as lab:
        yield lab


@pytest.fixture
def lab(shared):
    """A lab in which lab1 is up."""
    shared.up(["lab1"])
    return shared


def described(lab, name):
    return next(host for host in lab.list() if host.name == name)


def inside(lab, host, script):
    """Run a shell script in the host and return what it printed."""
    done = lab.run_inside(host, ["bash", "-c", script], limit_seconds=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def over_ssh(lab, host, command):
    return subprocess.run(
        [*lab.ssh_command(host), command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def ansible(lab, *arguments, environment=None):
    """Run plain ansible from the project's folder, as a team without our command line does."""
    return subprocess.run(
        [sys.executable, "-m", "ansible", "adhoc", "-i", "inventories/lab", *arguments],
        cwd=PROJECT.root,
        env={**os.environ, "IRONLEASE_LAB": lab.instance.name, "ANSIBLE_NOCOLOR": "1", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def read_to_the_end(client):
    while client.recv(4096):
        pass


def until(condition, limit_seconds=30.0):
    deadline = time.monotonic() + limit_seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def test_four_hosts_answer_in_time_from_a_cached_base(shared):
    shared.up(["lab1"])  # builds the base, should this computer have none yet
    shared.down()
    started = time.monotonic()

    shared.up()

    assert time.monotonic() - started < FOUR_HOSTS_SECONDS
    assert [host.state for host in shared.list()] == ["running"] * len(HOSTS)
    for host in HOSTS:
        assert over_ssh(shared, host, "hostname").stdout == f"{host}\n"
    assert len({inside(shared, host, "cat /etc/machine-id") for host in HOSTS}) == len(HOSTS)


def test_a_running_host_stays_as_it_is(lab):
    before = described(lab, "lab1").booted_since

    lab.up(["lab1"])

    assert described(lab, "lab1").booted_since == before


def test_a_running_host_with_a_broken_sshd_stays_as_it_is(lab):
    inside(lab, "lab1", "systemctl stop ssh.service")
    try:
        started = time.monotonic()
        lab.up(["lab1"])
        assert time.monotonic() - started < 5
        assert over_ssh(lab, "lab1", "true").returncode == 255
    finally:
        inside(lab, "lab1", "systemctl start ssh.service")


def test_a_host_that_was_started_but_never_answered_is_waited_for(lab):
    lab.down(["lab2"])
    lab.up(["lab2"])
    (lab.instance.host_run_dir("lab2") / "answered").unlink()
    soon = "systemd-run --on-active=2 --timer-property=AccuracySec=100ms"
    inside(lab, "lab2", f"systemctl stop ssh.service; {soon} systemctl start ssh.service")

    lab.up(["lab2"])

    assert over_ssh(lab, "lab2", "true").returncode == 0


def test_a_host_is_a_healthy_fresh_machine(lab):
    lab.reset(["lab1"])
    until(lambda: inside(lab, "lab1", "systemctl is-system-running || true") != "starting")

    assert inside(lab, "lab1", "systemctl is-system-running") == "running"
    assert inside(lab, "lab1", "systemctl list-units --failed --no-legend") == ""
    # What provisioning is there to install.
    assert inside(lab, "lab1", "for tool in gcc git pip3 curl podman; do command -v $tool; done; true") == ""


def test_a_host_installs_from_wherever_this_computer_can(lab):
    stack = yaml.safe_load((PROJECT.stacks / "torch-cpu.yml").read_text(encoding="utf-8"))
    package = stack["python"]["packages"][0]

    inside(lab, "lab1", "apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv")
    inside(lab, "lab1", f"python3 -m venv /root/v && /root/v/bin/pip install {package['name']}=={package['version']}")

    assert package["version"] in inside(lab, "lab1", f"/root/v/bin/pip show {package['name']}")


def test_package_folders_of_this_computer_show_in_the_host_and_cannot_be_written(lab):
    for folder in read_inheritance().bind_read_only:
        assert inside(lab, "lab1", f"ls '{folder}'").splitlines() == sorted(
            path.name for path in Path(folder).iterdir()
        )
        assert lab.run_inside("lab1", ["touch", f"{folder}/probe"]).returncode != 0


def test_plain_ansible_reaches_a_host_with_its_key_checked(lab, tmp_path):
    reached = ansible(lab, "lab1", "-m", "ansible.builtin.command", "-a", "hostname")
    known = lab.host_key().split()[1]
    wrong = tmp_path / "known_hosts"
    wrong.write_text(f"10.77.0.* ssh-ed25519 {known[:-4]}AAAA\n", encoding="ascii")
    options = f"-o GlobalKnownHostsFile={wrong} -o ControlPath=none -o UserKnownHostsFile=/dev/null"
    refused = ansible(lab, "lab1", "-m", "ansible.builtin.ping", environment={"ANSIBLE_SSH_ARGS": options})

    assert reached.returncode == 0, reached.stdout + reached.stderr
    assert "lab1" in reached.stdout
    assert "verification failed" in refused.stdout.lower()


def test_the_inventory_derives_the_same_lab_as_the_program(lab):
    shown = ansible(
        lab, "lab1", "-m", "ansible.builtin.debug", "-a", "var=lab_instance", environment={"IRONLEASE_LAB": ""}
    )

    assert f'"lab_instance": "{default_name(PROJECT.root)}"' in shown.stdout, shown.stdout + shown.stderr


def test_a_reboot_by_ansible_is_a_real_one(lab):
    before = described(lab, "lab1").booted_since
    boot_id = inside(lab, "lab1", "touch /root/marker; cat /proc/sys/kernel/random/boot_id")

    done = ansible(lab, "lab1", "-m", "ansible.builtin.reboot", "-a", "reboot_timeout=60")

    assert done.returncode == 0, done.stdout + done.stderr
    assert inside(lab, "lab1", "ls /root/marker; cat /proc/sys/kernel/random/boot_id") != f"/root/marker\n{boot_id}"
    assert described(lab, "lab1").booted_since > before + timedelta(milliseconds=100)


def test_a_host_that_was_switched_off_goes_on_from_its_files(lab):
    inside(lab, "lab1", "touch /root/kept; systemctl poweroff")
    until(lambda: described(lab, "lab1").state == "off")
    assert described(lab, "lab1").booted_since is None

    lab.up(["lab1"])

    assert inside(lab, "lab1", "ls /root/kept") == "/root/kept"


def test_a_reset_host_is_fresh_and_shows_the_same_key(lab):
    inside(lab, "lab1", "touch /root/marker")
    machine = inside(lab, "lab1", "cat /etc/machine-id")
    hardware_address = inside(lab, "lab1", "cat /sys/class/net/host0/address")

    lab.reset(["lab1"])

    assert inside(lab, "lab1", "ls /root") == ""
    assert inside(lab, "lab1", "cat /etc/machine-id") != machine
    # Another one would be unreachable until its neighbours forget the old one, half a minute later.
    assert inside(lab, "lab1", "cat /sys/class/net/host0/address") == hardware_address
    assert over_ssh(lab, "lab1", "true").returncode == 0


def test_a_power_cut_is_silent_and_keeps_the_files(lab):
    inside(lab, "lab1", "touch /root/marker; sync")
    with connection_to(lab, "lab1") as client:
        assert client.recv(4) == b"SSH-"
        lab.power_cut("lab1")
        client.settimeout(1)
        # A connection that is closed would say so; one whose other end lost its power says nothing.
        with pytest.raises(TimeoutError):
            read_to_the_end(client)
    assert described(lab, "lab1").state == "off"

    lab.power_on("lab1")

    assert inside(lab, "lab1", "ls /root/marker") == "/root/marker"


def test_a_host_ends_with_its_keeper(lab):
    process = lab._host("lab1").first_process()
    keeper = lab._host("lab1").keeper_group.processes()[0]

    os.kill(keeper, 9)

    until(lambda: not Path(f"/proc/{process}").exists(), limit_seconds=5)
    assert described(lab, "lab1").state == "off"


def test_hosts_reach_each_other(lab):
    lab.up(["lab2"])

    assert inside(lab, "lab1", "exec 3<>/dev/tcp/10.77.0.12/22; head -c 4 <&3") == "SSH-"


def test_a_host_without_a_route_out_reaches_its_neighbours_and_nothing_else(lab):
    lab.down(["lab2"])
    lab.up(["lab2"], route_out=False)

    assert inside(lab, "lab2", "exec 3<>/dev/tcp/10.77.0.11/22; head -c 4 <&3") == "SSH-"
    # Root in the host can give itself a route; the lab's own rules still let nothing out.
    script = "ip route add default via 10.77.0.1; apt-get -o Acquire::Retries=0 update 2>&1; true"
    assert "Failed to fetch" in inside(lab, "lab2", script)
    lab.power_cut("lab2")
    lab.power_on("lab2")
    assert "default" not in inside(lab, "lab2", "ip route")


def test_only_web_and_names_leave_the_lab(lab):
    started = time.monotonic()
    done = lab.run_inside("lab1", ["bash", "-c", "exec 3<>/dev/tcp/198.51.100.1/22"], limit_seconds=60)

    assert done.returncode != 0
    assert time.monotonic() - started < 5  # refused by the lab's own rules, not timed out far away


def test_two_labs_with_the_same_addresses_do_not_mix(lab):
    inside(lab, "lab1", "echo first > /root/which")
    with running_lab(f"u{os.getpid()}") as other:
        other.up(["lab1"])
        inside(other, "lab1", "echo second > /root/which")

        answers = [
            ansible(one, "lab1", "-m", "ansible.builtin.command", "-a", "cat /root/which") for one in (lab, other)
        ]

    assert ["first" in answers[0].stdout, "second" in answers[1].stdout] == [True, True]
    assert described(lab, "lab1").state == "running"


def test_one_host_goes_and_the_others_stay(lab):
    lab.up(["lab2"])

    lab.down(["lab2"])

    assert described(lab, "lab2").state == "absent"
    assert described(lab, "lab1").state == "running"
    assert over_ssh(lab, "lab1", "true").returncode == 0


def test_a_host_starts_from_a_saved_layer_as_a_machine_of_its_own(lab):
    inside(lab, "lab1", "touch /root/provisioned; sync")
    lab.save_layer("lab1", "provisioned")
    assert described(lab, "lab1").state == "off"

    lab.reset(["lab1", "lab2"], layer="provisioned")

    for host in ("lab1", "lab2"):
        assert inside(lab, host, "ls /root/provisioned; hostname") == f"/root/provisioned\n{host}"
    inside(lab, "lab2", "rm /root/provisioned")
    assert inside(lab, "lab1", "ls /root/provisioned") == "/root/provisioned"


def test_a_host_that_does_not_boot_is_named_with_the_end_of_its_console(lab):
    lab.down(["lab2"])
    lab.up(["lab2"])
    lab.power_cut("lab2")
    (lab._host("lab2").folder / "upper" / "usr" / "sbin").mkdir(parents=True, exist_ok=True)
    (lab._host("lab2").folder / "upper" / "usr" / "sbin" / "init").write_text("broken", encoding="ascii")
    (lab._host("lab2").folder / "upper" / "usr" / "lib" / "systemd").mkdir(parents=True, exist_ok=True)
    (lab._host("lab2").folder / "upper" / "usr" / "lib" / "systemd" / "systemd").write_text("broken", encoding="ascii")

    with pytest.raises(LabError) as failed:
        lab.up(["lab2"])

    assert failed.value.code == "lab-boot"
    assert failed.value.host == "lab2"
    assert "init" in failed.value.found
    lab.down(["lab2"])


def test_a_host_whose_base_was_removed_starts_fresh_and_says_so(lab, monkeypatch):
    lab.reset(["lab2"])
    inside(lab, "lab2", "touch /root/marker")
    record = lab._host("lab2").folder / "machine.json"
    record.write_text(record.read_text().replace(lab._host("lab2").machine().base, "0" * 16), encoding="utf-8")
    said = []
    monkeypatch.setattr(lab, "progress", said.append)

    lab.up(["lab2"])

    assert inside(lab, "lab2", "ls /root") == ""
    assert any("lab2" in line and "fresh" in line for line in said)


def test_a_host_that_is_off_cannot_be_entered(lab):
    lab.down(["lab2"])

    with pytest.raises(LabError) as refused:
        lab.run_inside("lab2", ["true"])

    assert refused.value.code == "lab-host-off"


def test_ssh_to_a_host_that_is_down_says_what_to_do(lab):
    lab.down(["lab2"])

    refused = over_ssh(lab, "lab2", "true")

    assert refused.returncode == 255
    assert "invoke lab.list" in refused.stderr


@contextlib.contextmanager
def connection_to(lab, host):
    """Connect as paramiko does: the script passes its socket over ours."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        subprocess.run(
            [sys.executable, "-IS", connect.__file__, str(lab.instance.namespace), HOSTS[host], "22"],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            timeout=30,
            check=True,
        )
        _, ancillary, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(array.array("i").itemsize))
    descriptors = array.array("i")
    descriptors.frombytes(ancillary[0][2])
    with socket.socket(fileno=descriptors[0]) as client:
        client.settimeout(10)
        yield client
