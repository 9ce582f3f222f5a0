from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe import disks, kernel, limits, network, pci, processes, software, system, users
from ironlease_node.tools import FAILED, NOT_FOUND, OK, TIMED_OUT, Command, Outcome, Runner


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (Outcome("sudo", OK, 0, "", ""), "passwordless"),
        (Outcome("sudo", FAILED, 1, "", "sudo: a password is required\n"), "password"),
        (Outcome("sudo", FAILED, 1, "", "Sorry, user ml may not run sudo on node-a.\n"), "none"),
        (Outcome("sudo", FAILED, 1, "", "ml is not in the sudoers file.\n"), "none"),
        (Outcome("sudo", NOT_FOUND), "none"),
        (Outcome("sudo", TIMED_OUT), "unknown"),
        (Outcome("sudo", FAILED, 1, "", "sudo: unable to resolve host node-a\n"), "unknown"),
    ],
)
def test_sudo(outcome, word):
    found, reason = users.judge_sudo(outcome)

    assert found == word
    assert (reason is not None) == (word == "unknown")


def test_processes_that_have_a_gpu_open(gpu_server, root, plant_files):
    plant_files(
        {
            "/dev/nvidia0": "",
            "/proc/4242/comm": "python3\n",
            "/proc/4242/status": "Name:\tpython3\nUid:\t1000\t1000\t1000\t1000\n",
            "/proc/4242/cmdline": "python3\0--token=abcd\0",
            "/proc/77/comm": "bash\n",
        }
    )
    (root / "proc/4242/fd").mkdir()
    (root / "proc/4242/fd/3").symlink_to("/dev/nvidia0")
    (root / "proc/4242/fd/4").symlink_to("/dev/nvidia-uvm")
    (root / "proc/4242/fd/5").symlink_to("socket:[1]")
    (root / "proc/77/fd").mkdir()
    (root / "proc/77/fd/0").symlink_to("/dev/null")
    problems_free = processes.read_gpu_processes(_sources(gpu_server))

    assert problems_free == [
        {"pid": 4242, "uid": 1000, "command": "python3", "devices": ["/dev/nvidia-uvm", "/dev/nvidia0"]}
    ]


def _sources(host):
    from ironlease_node.host import Problems
    from ironlease_node.probe.sources import Sources

    return Sources(host, {}, Problems(), None, "not read")


def test_lock_holders_by_inode_and_device(gpu_server, plant_files, root):
    lock = root / "var/lib/dpkg/lock-frontend"
    lock.touch()
    status = lock.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    plant_files(
        {
            "/proc/locks": f"1: POSIX  ADVISORY  WRITE 911 {device}:{status.st_ino} 0 EOF\n"
            f"1: -> POSIX  ADVISORY  WRITE 912 {device}:{status.st_ino} 0 EOF\n"
            f"2: OFDLCK ADVISORY  WRITE -1 {device}:{status.st_ino} 0 EOF\n"
            f"3: POSIX  ADVISORY  WRITE 913 ff:ff:{status.st_ino} 0 EOF\n",
            "/proc/911/cmdline": "/usr/bin/python3\0/usr/bin/unattended-upgrade\0https://u:pw@example.com\0",
        }
    )

    held = processes.lock_holders(gpu_server, software.LOCK_FILES)

    assert held == [
        {
            "path": "/var/lib/dpkg/lock-frontend",
            "pid": 911,
            "command": "/usr/bin/python3 /usr/bin/unattended-upgrade https://example.com",
        }
    ]


def test_lock_on_a_file_system_with_two_device_numbers_is_confirmed_by_the_open_file(gpu_server, plant_files, root):
    lock = root / "var/lib/dpkg/lock"
    lock.touch()
    plant_files(
        {
            "/proc/locks": f"1: POSIX  ADVISORY  WRITE 914 ff:ff:{lock.stat().st_ino} 0 EOF\n",
            "/proc/914/comm": "dpkg\n",
        }
    )
    (root / "proc/914/fd").mkdir()
    (root / "proc/914/fd/5").symlink_to("/var/lib/dpkg/lock")

    assert processes.lock_holders(gpu_server, software.LOCK_FILES) == [
        {"path": "/var/lib/dpkg/lock", "pid": 914, "command": "dpkg"}
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Linux version 6.1.0-30-amd64 (debian-kernel@example.org) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld "
            "(GNU Binutils for Debian) 2.40) #1 SMP PREEMPT_DYNAMIC Debian 6.1.124-1 (2025-01-12)\n",
            (
                "gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld (GNU Binutils for Debian) 2.40",
                "#1 SMP PREEMPT_DYNAMIC Debian 6.1.124-1 (2025-01-12)",
            ),
        ),
        ("something else", (None, None)),
    ],
)
def test_proc_version(text, expected):
    assert system.parse_proc_version(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.173.02  Tue Jun 23 08:38:17 UTC 2026\n",
            ("580.173.02", "proprietary"),
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (b@c)\n",
            ("570.86.15", "open"),
        ),
        ("", (None, None)),
    ],
)
def test_driver_version(text, expected):
    assert kernel.parse_driver_version(text) == expected


def test_loaded_driver_without_a_version_is_unknown(gpu_server, root):
    (root / "proc/driver/nvidia/version").write_text("rubbish")
    (root / "sys/module/nvidia/version").unlink()

    with pytest.raises(Unreadable, match="names its version"):
        kernel.nvidia_driver(gpu_server)


@pytest.mark.parametrize(
    ("vendor", "device", "code", "group"),
    [
        ("10de", "2330", "0302", "accelerators"),
        ("10de", "2684", "0300", "accelerators"),
        ("10de", "22ba", "0403", None),
        ("10de", "1af1", "0680", "nvswitches"),
        ("19e5", "d802", "1200", "accelerators"),
        ("19e5", "d500", "1200", "accelerators"),
        ("19e5", "1711", "0300", None),
        ("19e5", "0222", "0200", "network"),
        ("1a03", "2000", "0300", None),
        ("15b3", "1021", "0207", "network"),
        (None, None, None, None),
    ],
)
def test_classify(vendor, device, code, group):
    assert pci.classify(vendor, device, code)[0] == group


@pytest.mark.parametrize(
    ("text", "speed"), [("16.0 GT/s PCIe", 16.0), ("8 GT/s", 8.0), ("Unknown", None), (None, None)]
)
def test_link_speed(text, speed):
    assert pci.parse_speed(text) == speed


@pytest.mark.parametrize(("text", "width"), [("16", 16), ("0", None), ("255", None), ("", None), (None, None)])
def test_link_width(text, width):
    assert pci.parse_width(text) == width


def test_port_words():
    assert network.parse_state("1: DOWN") == "DOWN"
    assert network.parse_state(None) is None
    assert network.parse_rate("2.5 Gb/sec (1X SDR)") == 2.5
    assert network.parse_rate("unknown") is None


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({}, "no-efi"),
        ({kernel.SECURE_BOOT_VARIABLE: b"\x06\0\0\0\0"}, "disabled"),
        ({kernel.SECURE_BOOT_VARIABLE: b"\x06\0\0\0\x01"}, "enabled"),
        ({"/sys/firmware/efi/efivars/Other": b""}, "disabled"),
    ],
)
def test_secure_boot(files, word, plant_files, root):
    plant_files(files)

    assert kernel.read_secure_boot(_sources(Host(root))) == word


def test_secure_boot_without_the_variables_is_unknown(root):
    (root / "sys/firmware/efi").mkdir(parents=True)

    with pytest.raises(Unreadable, match="not mounted"):
        kernel.read_secure_boot(_sources(Host(root)))


@pytest.mark.parametrize(
    ("text", "enabled"),
    [
        ('APT::Periodic::Unattended-Upgrade="1"\n', True),
        ('APT::Periodic::Unattended-Upgrade="0"\n', False),
        ("", False),
    ],
)
def test_periodic_upgrades(text, enabled):
    assert software.parse_periodic(text) is enabled


def test_limits_are_numbers_or_unlimited():
    found = limits.read_limits(_sources(Host()))

    values = [value for limit in found.values() for value in limit.values()]
    assert all(value == "unlimited" or value >= 0 for value in values)


def test_real_machine(tmp_path):
    answered = subprocess.run(
        [sys.executable, "-m", "ironlease_node", "probe"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )

    document = json.loads(answered.stdout)
    assert document["os"]["kernel_release"] == os.uname().release
    assert document["cpu"]["threads"] == os.cpu_count()
    assert document["user"]["uid"] == os.geteuid()
    assert all(set(problem) == {"part", "reason"} for problem in document["problems"])
    assert not any("crash" in problem["reason"] for problem in document["problems"])


def test_python_question_finds_out_about_ensurepip(tmp_path):
    outcome = Runner().run([sys.executable, "-I", "-S", "-c", software.PYTHON_QUESTION])

    assert outcome.stdout.split() == ["{}.{}.{}".format(*sys.version_info[:3]), "True"]
    assert Command(["x"]).timeout_seconds == 5.0


def test_no_disk_is_called_empty_by_a_user_who_cannot_look(data):
    devices = disks.parse_lsblk(data("lsblk.json"), sees_signatures=False)

    assert [device["empty"] for device in devices if device["name"] == "nvme3n1"] == [None]
    assert not any(device["empty"] for device in devices)


def test_old_lsblk_writes_numbers_as_text():
    text = json.dumps(
        {"blockdevices": [{"name": "sda", "type": "disk", "size": "1000", "rota": "1", "ro": "0", "fstype": None}]}
    )

    (device,) = disks.parse_lsblk(text, sees_signatures=True)

    assert (device["size_bytes"], device["rotational"], device["read_only"]) == (1000, True, False)
    assert device["path"] == "/dev/sda"


def test_a_disk_with_only_an_unformatted_partition_is_not_empty():
    part = {"name": "sda1", "type": "part", "size": 8, "fstype": None, "mountpoint": None}
    text = json.dumps(
        {"blockdevices": [{"name": "sda", "type": "disk", "size": 8, "fstype": None, "children": [part]}]}
    )

    (device,) = disks.parse_lsblk(text, sees_signatures=True)

    assert (device["empty"], device["partitions"]) == (False, 1)
