"""A bare Debian 12 host as the probe describes it, which each test bends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ironlease import stack
from ironlease.inventory import Host
from ironlease.plan import resolve
from ironlease_node.places import TRACES

NOW = datetime(2026, 11, 30, 8, 0, tzinfo=UTC)
AGENT_SHA256 = "ab" * 32
GIB = 1 << 30


def bare_host() -> dict[str, Any]:
    return {
        "schema": "ironlease.probe/1",
        "collected_at": "2026-11-30T08:00:00Z",
        "simulated": None,
        "os": {"id": "debian", "version_id": "12", "pretty_name": "Debian GNU/Linux 12", "architecture": "x86_64"},
        "user": {"name": "root", "uid": 0, "sudo": "root"},
        "cpu": {"numa_nodes": 2},
        "memory_bytes": 64 * GIB,
        "mounts": [
            {"path": "/", "type": "ext4", "read_only": False, "size_bytes": 100 * GIB, "available_bytes": 90 * GIB},
        ],
        "shared_memory": {"size_bytes": 32 * GIB, "available_bytes": 32 * GIB},
        "pci": {"accelerators": [], "nvswitches": [], "network": []},
        "limits": {
            "memlock_bytes": {"soft": 8388608, "hard": 8388608},
            "open_files": {"soft": 1024, "hard": 524288},
        },
        "nvidia_driver": {"loaded": False, "version": None, "flavour": None},
        "packages": {"bash": "5.2.15-2+b7", "ca-certificates": "20230311"},
        "broken_packages": [],
        "apt": {"locks": [], "dpkg_interrupted": False},
        "time": {"synchronised": True, "utc": "2026-11-30T08:00:00Z", "timezone": "Etc/UTC"},
        "pythons": [{"path": "/usr/bin/python3", "version": "3.11.2", "venv": False}],
        "kernel_permits": {
            "sysctl": {"fs": True, "kernel": True, "net": True, "vm": True},
            "raise_limits": True,
            "set_clock": True,
            "load_modules": True,
        },
        "reboot_required": {"required": False, "packages": []},
        "traces": dict.fromkeys(TRACES, False),
        "problems": [],
    }


def gpu_host(*devices: str, driver: str | None = "580.126.20", flavour: str = "open") -> dict[str, Any]:
    """What a probe of a GPU host has more than that of a bare one, as changes for ``make_plan``."""
    accelerators = [{"vendor": "10de", "device": device, "class": "0302", "kind": "gpu"} for device in devices]
    loaded = driver is not None
    return {
        "pci.accelerators": accelerators,
        "nvidia_driver": {"loaded": loaded, "version": driver, "flavour": flavour if loaded else None},
    }


def bend(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Set the dotted keys of ``changes``; a value of ... removes the key."""
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        place: Any = document
        for step in parents:
            place = place[step]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return document


@pytest.fixture
def now():
    return NOW


@pytest.fixture
def gpus():
    return gpu_host


@pytest.fixture
def make_plan():
    def make(changes=None, *, stack_name="torch-cpu", at=NOW, **host):
        probe = bend(bare_host(), changes or {})
        return resolve(
            stack.load(stack_name), probe, Host("node1", "203.0.113.11", **host), at, agent_sha256=AGENT_SHA256
        )

    return make
