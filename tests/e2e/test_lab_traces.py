"""Whatever happens to a lab, ``lab.down`` leaves this computer as it was."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ironlease.lab import base
from ironlease.lab.cgroups import ROOT_NAME, unified_mount
from ironlease.lab.errors import LabUnavailableError
from ironlease.lab.instance import CACHE_ROOT, DATA_ROOT, RUN_ROOT, Instance
from ironlease.lab.inventory import read_lab_hosts
from ironlease.lab.lab import Lab
from ironlease.lab.preconditions import check
from ironlease.paths import Project

pytestmark = pytest.mark.lab

PROJECT = Project.here()
HOSTS = read_lab_hosts(PROJECT.inventories / "lab" / "hosts.yml")
UP = "from ironlease.lab.lab import Lab; from ironlease.paths import Project; Lab.here(Project.here()).up({hosts})"
# With one package more, no cached base fits, and the base has to be built.
UP_WITH_BUILD = "from ironlease.lab import base; base.PACKAGES += ('hostname', 'less'); " + UP


class Traces:
    """What a lab could leave on this computer, in the kernel's own words.

    Labs of other checkouts may run beside this one, so theirs are left out of every list.
    """

    def __init__(self, instance):
        self.instance = instance
        self.mounts = self._without_others(Path("/proc/self/mountinfo").read_text().splitlines())
        self.named_namespaces = sorted(path.name for path in Path("/run/netns").glob("*"))
        self.interfaces = sorted(path.name for path in Path("/sys/class/net").iterdir())
        self.firewall = subprocess.run(
            ["nft", "list", "ruleset"], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        self.forwarding = {
            str(path): path.read_text()
            for pattern in ("ipv4/ip_forward", "ipv4/conf/*/forwarding", "ipv6/conf/*/forwarding")
            for path in sorted(Path("/proc/sys/net").glob(pattern))
        }
        self.control_groups = self._without_others(str(path) for path in _folders(unified_mount()))
        self.folders = self._without_others(
            str(path)
            for root in (
                RUN_ROOT,
                DATA_ROOT,
                base.BASES,
                Path("/run/systemd"),
                Path("/etc/netns"),
                Path("/var/lib/machines"),
            )
            for path in (root, *root.glob("*"), *root.glob(".*"))
            if path.exists()
        )
        # The folders of all labs go with the last of them.
        self.empty_roots = [str(path) for path in _roots() if path.is_dir() and not any(_entries(path))]
        self.processes = sorted(self._processes())

    def differences(self, before):
        return {
            name: (vars(before)[name], value)
            for name, value in vars(self).items()
            if name != "instance" and value != vars(before)[name]
        }

    def _without_others(self, lines):
        """Leave out what belongs to another lab, and the folders that all labs share."""
        others = re.compile(
            rf"ironlease(/lab|-lab)(?!/{self.instance}\b)(/|$)|/\.building-(?!{self.instance})|/bases/\w"
        )
        return sorted(line for line in lines if not others.search(line) or self.instance in line)

    def _processes(self):
        """Processes that carry the lab's name in their arguments, environment or control group."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                texts = [(folder / name).read_bytes() for name in ("cmdline", "environ", "cgroup", "mountinfo")]
                if any(self.instance.encode() in text for text in texts) and int(folder.name) != os.getpid():
                    yield texts[0].replace(b"\0", b" ").decode(errors="replace")


def _roots():
    return [RUN_ROOT, DATA_ROOT, unified_mount() / ROOT_NAME]


def _entries(folder):
    """What is in the folder; the files of a control group are not, its groups are."""
    return [path for path in folder.iterdir() if path.is_dir() or folder.name != ROOT_NAME]


def _folders(root):
    return [Path(folder) for folder, _, _ in os.walk(root)]


@pytest.fixture(scope="module", autouse=True)
def _possible():
    try:
        check()
    except LabUnavailableError as refused:
        pytest.skip(f"{refused.found} Needed: {refused.needed}")


@pytest.fixture
def lab(monkeypatch):
    name = f"v{os.getpid()}"
    monkeypatch.setenv("IRONLEASE_LAB", name)
    lab = Lab(Instance(name), HOSTS)
    yield lab
    lab.down()


@pytest.fixture
def before(lab):
    # The keys and the base are caches and stay; make them first, so that they are no difference.
    lab.up(["lab1"])
    lab.down()
    return Traces(lab.instance.name)


def start(code, hosts):
    """Start a command that brings the lab up, as the leader of its own process group, like a shell does."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT.root / "src")}
    return subprocess.Popen(
        [sys.executable, "-c", code.format(hosts=hosts)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def wait_for(path, process, limit_seconds=60.0):
    deadline = time.monotonic() + limit_seconds
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.001)


def moments(lab):
    """The moments in which an interruption hurts, each by what has just appeared."""
    group = unified_mount() / ROOT_NAME / lab.instance.name
    return {
        "network": lab.instance.namespace,
        "way out": group / "network",
        "host's files": lab.instance.host_data_dir("lab1") / "upper",
        "start order": lab.instance.host_run_dir("lab1") / "ticket.json",
        "boot": group / "host-lab1",
        "second boot": group / "host-lab2" / "payload",
    }


MOMENTS = ["network", "way out", "host's files", "start order", "boot", "second boot"]


def test_the_traces_of_a_running_lab_are_seen(lab, before):
    """The proof that the comparison in this file can fail."""
    lab.up(["lab1"])

    differences = Traces(lab.instance.name).differences(before)

    assert {"mounts", "control_groups", "folders", "processes"} <= set(differences)
    assert not {"interfaces", "firewall", "forwarding", "named_namespaces"} & set(differences)


def test_nothing_is_left_after_a_normal_run(lab, before):
    launcher = start(UP, ["lab1", "lab2"])
    output, _ = launcher.communicate(timeout=120)
    assert launcher.returncode == 0, output
    # The hosts outlive the command that booted them, and plain Ansible leaves a connection master behind.
    reached = subprocess.run(
        [sys.executable, "-m", "ansible", "adhoc", "-i", "inventories/lab", "lab1", "-m", "ansible.builtin.ping"],
        cwd=PROJECT.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert reached.returncode == 0, reached.stdout + reached.stderr
    assert list(lab.instance.ssh_sockets.iterdir())

    lab.down()

    assert Traces(lab.instance.name).differences(before) == {}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_nothing_is_left_after_an_interrupted_start(lab, before, moment, end):
    launcher = start(UP, ["lab1", "lab2"])
    wait_for(moments(lab)[moment], launcher)
    # Ctrl-C reaches the whole group of the terminal, kill -9 the one process.
    os.killpg(launcher.pid, end) if end == signal.SIGINT else os.kill(launcher.pid, end)

    lab.down()
    launcher.communicate(timeout=30)

    assert launcher.returncode != 0
    assert Traces(lab.instance.name).differences(before) == {}


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_nothing_is_left_after_an_interrupted_build_of_the_base(lab, before, end):
    work = base.BASES / f".building-{lab.instance.name}"
    launcher = start(UP_WITH_BUILD, ["lab1"])
    wait_for(work / "root" / "usr" / "bin", launcher)
    os.killpg(launcher.pid, end) if end == signal.SIGINT else os.kill(launcher.pid, end)

    lab.down()
    launcher.communicate(timeout=30)

    assert not work.exists()
    assert Traces(lab.instance.name).differences(before) == {}


def test_nothing_is_left_after_keepers_and_the_way_out_were_killed(lab, before):
    lab.up(["lab1", "lab2"])
    for process in [*lab._host("lab1").keeper_group.processes(), *lab._network.group.processes()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)

    lab.down()

    assert Traces(lab.instance.name).differences(before) == {}


def test_nothing_is_left_after_a_power_cut_under_an_open_connection(lab, before):
    lab.up(["lab1"])
    client = subprocess.Popen([*lab.ssh_command("lab1"), "sleep 600"], stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while "sleep" not in lab.run_inside("lab1", ["ps", "-eo", "comm"]).stdout:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        lab.power_cut("lab1")

        lab.down()

        assert client.wait(timeout=5) != 0
    finally:
        client.kill()
        client.wait(timeout=5)
    assert Traces(lab.instance.name).differences(before) == {}


def test_nothing_is_left_while_another_lab_runs_on(lab, before):
    lab.up(["lab1"])
    # Its hosts start while ours run, so each of their processes begins with a copy of our mounts.
    other = Lab(Instance(f"w{os.getpid()}"), HOSTS)
    try:
        other.up(["lab1"])

        lab.down()

        assert Traces(lab.instance.name).differences(before) == {}
        assert other.run_inside("lab1", ["true"]).returncode == 0
    finally:
        other.down()


def test_a_lab_whose_way_out_was_killed_gets_it_back(lab, before):
    lab.up(["lab1"])
    for process in lab._network.group.processes():
        os.kill(process, signal.SIGKILL)

    lab.up(["lab2"])

    for host in ("lab1", "lab2"):
        done = lab.run_inside(host, ["apt-get", "-qq", "update"], limit_seconds=120)
        assert (done.returncode, done.stderr) == (0, "")


def test_hosts_come_back_after_the_computer_itself_was_restarted(lab, before):
    """After a restart no process and no mount is left, but the files in /var, and in /run where that is on disk."""
    lab.up(["lab1"])
    lab.run_inside("lab1", ["sh", "-c", "touch /root/kept; sync"])
    lab._group.kill()
    lab._group.remove()
    for name in ("net/lab", "net/host-lab1"):
        subprocess.run(["umount", str(lab.instance.run_dir / name)], timeout=30, check=True)

    lab.up(["lab1"])

    assert lab.run_inside("lab1", ["ls", "/root"]).stdout == "kept\n"
    lab.down()
    assert Traces(lab.instance.name).differences(before) == {}


def test_down_twice_is_no_error_and_touches_no_cache(lab, before):
    cached = sorted(path.name for path in CACHE_ROOT.iterdir())

    lab.down()
    lab.down()

    assert sorted(path.name for path in CACHE_ROOT.iterdir()) == cached
    assert Traces(lab.instance.name).differences(before) == {}
