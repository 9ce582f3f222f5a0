from __future__ import annotations

import json
import os

import pytest

from ironlease_node import probe
from ironlease_node.host import Host
from ironlease_node.places import TRACES
from ironlease_node.probe import disks


@pytest.fixture
def document(gpu_server, tools):
    return probe.collect(gpu_server, tools)


def reasons(document):
    return {entry["part"]: entry["reason"] for entry in document["problems"]}


def test_whole_server_is_known_except_for_what_it_does_not_tell(document):
    # The lost GPU, the disks and the rest are facts; nothing had to be left unknown.
    assert document["problems"] == []
    assert document["schema"] == "ironlease.probe/1"
    assert set(document) == {*probe.PARTS, "schema", "agent", "collected_at", "problems"}


def test_operating_system(document):
    assert document["os"] == {
        "id": "ubuntu",
        "id_like": ["debian"],
        "version_id": "22.04",
        "codename": "jammy",
        "pretty_name": "Ubuntu 22.04.5 LTS",
        "kernel_release": "5.15.0-130-generic",
        "kernel_version": "#140-Ubuntu SMP Wed Dec 18 17:59:53 UTC 2024",
        "kernel_compiler": "gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0, GNU ld (GNU Binutils for Ubuntu) 2.38",
        "kernel_command_line": "BOOT_IMAGE=/vmlinuz-5.15.0-130-generic "
        "root=UUID=00000000-0000-4000-8000-000000000001 ro iommu=pt",
        "architecture": "x86_64",
        "dpkg_architecture": "amd64",
        "virtualization": "none",
        "init": "systemd",
    }
    assert document["hostname"] == "node-a"
    assert document["boot_id"] == "00000000-0000-4000-8000-00000000b007"


def test_processors_and_memory(document):
    assert document["cpu"] == {
        "model": "Intel(R) Xeon(R) Platinum 8480+",
        "sockets": 2,
        "cores": 4,
        "threads": 8,
        "numa_nodes": 2,
    }
    assert document["memory_bytes"] == 2113395712 * 1024


def test_accelerators_are_found_without_a_driver_and_a_display_chip_is_none(document):
    found = {device["address"]: device for device in document["pci"]["accelerators"]}

    assert list(found) == ["0000:18:00.0", "0000:2a:00.0", "0000:3a:00.0", "0000:ff:00.0"]
    assert found["0000:18:00.0"] == {
        "kind": "gpu",
        "address": "0000:18:00.0",
        "vendor": "10de",
        "device": "2330",
        "subsystem_vendor": "10de",
        "subsystem_device": "16c1",
        "class": "0302",
        "revision": "a1",
        "numa_node": 0,
        "driver": "nvidia",
        "link_width": 16,
        "link_width_max": 16,
        "link_speed_gts": 32.0,
        "link_speed_gts_max": 32.0,
    }
    assert (found["0000:2a:00.0"]["link_width"], found["0000:2a:00.0"]["link_speed_gts"]) == (8, 2.5)
    assert (found["0000:ff:00.0"]["kind"], found["0000:ff:00.0"]["device"]) == ("npu", "d802")
    assert [device["device"] for device in document["pci"]["nvswitches"]] == ["22a3"]
    assert [device["class"] for device in document["pci"]["network"]] == ["0207"]


def test_lost_gpu_has_no_link_and_no_invented_numa_node(document):
    lost = document["pci"]["accelerators"][2]

    assert lost["revision"] == "ff"
    assert lost["driver"] is None
    assert lost["numa_node"] is None
    assert lost["link_width"] is lost["link_width_max"] is lost["link_speed_gts"] is None


def test_interfaces(document):
    found = {interface["name"]: interface for interface in document["interfaces"]}

    assert {name: interface["kind"] for name, interface in found.items()} == {
        "bond0": "bond",
        "ens1f0": "physical",
        "ens1f1": "physical",
        "ibs10": "infiniband",
        "lo": "loopback",
    }
    assert found["ens1f0"]["master"] == "bond0"
    assert (found["ens1f0"]["pci_address"], found["ens1f0"]["numa_node"]) == ("0000:05:00.0", 0)
    assert found["ens1f1"]["speed_mbps"] is None
    assert found["ibs10"]["speed_mbps"] == 400_000
    assert found["bond0"]["addresses"][0] == {
        "address": "192.0.2.11",
        "prefix_length": 24,
        "family": "inet",
        "scope": "global",
    }
    assert "02:00:00" not in json.dumps(document)


def test_hcas(document):
    assert document["hcas"] == [
        {
            "name": "mlx5_0",
            "type": "MT4129",
            "firmware": "28.39.2048",
            "board_id": "MT_0000000838",
            "pci_address": "0000:1a:00.0",
            "numa_node": 0,
            "ports": [
                {
                    "port": 1,
                    "state": "ACTIVE",
                    "physical_state": "LinkUp",
                    "rate_gbps": 400.0,
                    "link_layer": "InfiniBand",
                    "interfaces": ["ibs10"],
                }
            ],
        }
    ]


def test_mounts_hold_data_and_a_network_one_is_asked_through_a_child(document, tools):
    found = {mount["path"]: mount for mount in document["mounts"]}

    assert list(found) == ["/", "/boot/efi", "/data/scratch disk", disks.SHARED_MEMORY, "/mnt/nfs"]
    assert found["/boot/efi"]["read_only"] is True
    assert found["/mnt/nfs"]["network"] is True
    assert found["/mnt/nfs"]["size_bytes"] == 4096 * 1000
    assert found["/mnt/nfs"]["available_bytes"] == 4096 * 250
    assert [argv[-1].endswith("/mnt/nfs") for argv in tools.asked if argv[0] == "stat"] == [True]
    assert found["/"]["available_bytes"] > 0


def test_dead_network_mount_costs_only_its_own_room(gpu_server, tools):
    tools.hangs("stat")

    document = probe.collect(gpu_server, tools)

    mount = next(mount for mount in document["mounts"] if mount["network"])
    assert mount["size_bytes"] is mount["available_bytes"] is None
    assert reasons(document) == {"mounts./mnt/nfs": "stat: timed out after 5 s"}


def test_block_devices_are_empty_only_on_evidence(document):
    found = {device["name"]: device for device in document["block_devices"]}

    assert {name: device["empty"] for name, device in found.items()} == {
        "nvme0n1": False,
        "nvme1n1": False,
        "nvme2n1": False,
        "nvme3n1": True,
        "sda": False,
    }
    assert found["nvme0n1"]["model"] == "VENDOR NVME 960G"
    assert found["nvme0n1"]["partitions"] == 2
    assert found["nvme0n1"]["mount_points"] == ["/", "/boot/efi"]
    assert found["nvme2n1"]["file_systems"] == ["LVM2_member", "ext4"]
    assert found["nvme3n1"]["size_bytes"] == 3840755982336


def test_without_lsblk_the_kernel_is_asked_and_emptiness_is_unknown(gpu_server, tools, plant_files):
    del tools.answers["lsblk"]
    plant_files(
        {
            "/sys/block/nvme1n1/size": "8",
            "/sys/block/nvme1n1/queue/rotational": "0\n",
            "/sys/block/sdb/size": "16",
            "/sys/block/sdb/queue/rotational": "1\n",
            "/sys/block/sdb/device/model": "OLD DISK  \n",
            "/sys/block/sdc/size": "16",
            "/sys/block/sdc/sdc1/partition": "1",
            "/sys/block/loop3/size": "8",
            "/sys/block/zram0/size": "8",
        }
    )

    document = probe.collect(gpu_server, tools)

    found = {device["name"]: device for device in document["block_devices"]}
    assert {name: device["empty"] for name, device in found.items()} == {"nvme1n1": False, "sdb": None, "sdc": False}
    assert (found["sdb"]["size_bytes"], found["sdb"]["rotational"], found["sdb"]["model"]) == (8192, True, "OLD DISK")
    assert reasons(document) == {"block_devices.file_systems": "lsblk: not installed"}


def test_packages_and_what_dpkg_left_in_the_middle(document):
    assert document["packages"] == {
        "dpkg": "1.21.1ubuntu2.3",
        "libc6": "2.35-0ubuntu3.8",
        "libc6:i386": "2.35-0ubuntu3.8",
        "lost-files": "2.0",
        "unattended-upgrades": "2.8ubuntu1",
    }
    assert document["broken_packages"] == [
        {"name": "lost-files", "state": "reinst-required", "version": "2.0"},
        {"name": "nvidia-dkms-580", "state": "half-configured", "version": "580.65.06-0ubuntu1"},
    ]
    assert document["holds"] == ["libc6"]
    assert document["apt"]["dpkg_interrupted"] is True
    assert document["unattended_upgrades"] == {"installed": True, "enabled": True}


def test_keyrings_are_named_by_their_digest(document):
    (keyring,) = document["apt"]["keyrings"]

    assert keyring["path"] == "/etc/apt/keyrings/c.asc"
    assert len(keyring["sha256"]) == 64


def test_driver_modules_and_secure_boot(document):
    assert document["nvidia_driver"] == {"loaded": True, "version": "580.65.06", "flavour": "open"}
    assert document["kernel_modules"] == {
        "ib_core": False,
        "mlx5_core": True,
        "mlx5_ib": False,
        "nouveau": False,
        "nvidia": True,
        "nvidia_peermem": False,
        "nvidia_uvm": False,
    }
    assert document["secure_boot"] == "enabled"


def test_what_the_kernel_permits(document):
    permits = document["kernel_permits"]

    assert permits["sysctl"] == {"fs": True, "kernel": True, "net": True, "vm": True}
    assert permits["raise_limits"] is True
    assert permits["load_modules"] is True


def test_capabilities_decide_what_root_may_do(gpu_server, tools, plant_files):
    # CAP_SYS_MODULE (16) and CAP_SYS_RESOURCE (24) are missing.
    plant_files({"/proc/self/status": f"CapBnd:\t{0x1FFFFFFFFFF & ~(1 << 16) & ~(1 << 24):016x}\n"})

    permits = probe.collect(gpu_server, tools)["kernel_permits"]

    assert permits["raise_limits"] is False
    assert permits["load_modules"] is False


def test_time_reboot_traces(document):
    assert document["time"]["synchronised"] is True
    assert document["time"]["timezone"] == "Asia/Shanghai"
    assert document["reboot_required"] == {
        "required": True,
        "packages": ["linux-base", "linux-image-5.15.0-131-generic"],
    }
    assert document["traces"] == dict.fromkeys(TRACES, False)


def test_pythons_are_asked_once_for_each_file(document, tools):
    assert document["pythons"] == [{"path": "/usr/bin/python3", "version": "3.10.12", "venv": False}]
    assert sum(1 for argv in tools.asked if "-c" in argv) == 1


def test_each_missing_tool_is_null_with_its_reason(gpu_server, no_tools):
    document = probe.collect(gpu_server, no_tools)

    assert reasons(document) == {
        "block_devices.file_systems": "lsblk: not installed",
        "interfaces.addresses": "ip: not installed",
        "mounts./mnt/nfs": "stat: not installed",
        "os.virtualization": "systemd-detect-virt: not installed",
        "pythons./usr/bin/python3": "python3: not installed",
        "time.synchronised": "timedatectl: not installed",
        "unattended_upgrades.enabled": "apt-config: not installed",
    }
    assert document["os"]["virtualization"] is None
    assert document["os"]["id"] == "ubuntu"
    assert document["time"]["synchronised"] is None
    assert document["unattended_upgrades"] == {"installed": True, "enabled": None}
    assert all(interface["addresses"] is None for interface in document["interfaces"])


def test_each_hung_tool_is_null_with_its_reason(gpu_server, tools):
    for tool in list(tools.answers):
        tools.hangs(tool)

    document = probe.collect(gpu_server, tools)

    assert set(reasons(document).values()) == {f"{tool}: timed out after 5 s" for tool in tools.answers} - {
        # Not asked by the probe.
        "systemctl: timed out after 5 s"
    }
    assert document["pci"]["accelerators"]


def test_tools_that_print_rubbish_are_problems_and_not_crashes(gpu_server, tools, capsys):
    for tool in ("ip", "lsblk", "stat", "timedatectl", "python3"):
        tools.answers[tool] = "{]rubbish"

    document = probe.collect(gpu_server, tools)

    assert set(reasons(document)) == {
        "block_devices",
        "interfaces.addresses",
        "mounts./mnt/nfs",
        "pythons./usr/bin/python3",
        "time.synchronised",
    }
    assert document["block_devices"] is None
    assert "Traceback" not in capsys.readouterr().err


def test_empty_host_gives_null_for_every_part_that_cannot_be_read(root, no_tools):
    document = probe.collect(Host(root, effective_uid=0, architecture="x86_64"), no_tools)

    unknown = {name for name in probe.PARTS if document[name] is None}
    # `simulated` is the exception: null says that there is no label.
    assert unknown - {"simulated"} == {entry["part"] for entry in document["problems"] if "." not in entry["part"]}
    assert {"os", "packages", "pci", "cpu", "memory_bytes", "mounts", "interfaces"} <= unknown
    assert document["reboot_required"] == {"required": False, "packages": []}


def test_a_part_that_crashes_costs_no_other_part(gpu_server, tools, monkeypatch, capsys):
    def crash(sources):
        raise RuntimeError("unforeseen")

    monkeypatch.setitem(probe.PARTS, "cpu", crash)

    document = probe.collect(gpu_server, tools)

    assert document["cpu"] is None
    assert reasons(document) == {"cpu": "crash of the probe's own: RuntimeError('unforeseen')"}
    assert "Traceback" in capsys.readouterr().err
    assert document["memory_bytes"]


def test_simulation_is_labelled_and_changes_nothing_else(gpu_server, tools, plant_files):
    before = probe.collect(gpu_server, tools)
    plant_files({probe.SIMULATED_MARKER: '{"profile": "h100-sxm-8"}'})

    after = probe.collect(gpu_server, tools)

    assert (before["simulated"], after["simulated"]) == (None, "h100-sxm-8")
    same = set(before) - {"simulated", "collected_at", "time", "mounts", "shared_memory"}
    assert {name: before[name] for name in same} == {name: after[name] for name in same}


def test_a_label_that_cannot_be_read_is_not_taken_for_real_hardware(gpu_server, tools, plant_files):
    plant_files({probe.SIMULATED_MARKER: "{}"})

    assert "simulated" in reasons(probe.collect(gpu_server, tools))


def test_a_user_who_is_not_root_is_asked_about_sudo_and_knows_less(gpu_server, tools, plant_files):
    plant_files({"/dev/nvidia0": ""})
    tools.fails("sudo", 1, "sudo: a password is required")

    document = probe.collect(Host(gpu_server.root, effective_uid=os.geteuid() + 1), tools)

    assert document["user"]["sudo"] == "password"
    assert document["gpu_processes"] is None
    assert reasons(document)["gpu_processes"] == "only root can see the open files of other users' processes"
