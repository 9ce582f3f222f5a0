"""`probe`: what a host is, read-only. docs/reference/probe.md describes the answer."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

from ironlease_node import dpkg, places, self_file
from ironlease_node.host import Host, Problems, Unreadable
from ironlease_node.probe import (
    clock,
    disks,
    kernel,
    limits,
    network,
    pci,
    processes,
    processors,
    software,
    system,
    users,
)
from ironlease_node.probe.sources import Sources
from ironlease_node.text import utc_now
from ironlease_node.tools import Command, Runner

SCHEMA = "ironlease.probe/1"
SIMULATED_MARKER = f"{pci.DEVICES_FOLDER}/.ironlease-simulated"

PARTS: dict[str, Callable[[Sources], Any]] = {
    "apt": software.read_apt,
    "block_devices": disks.read_block_devices,
    "boot_id": lambda sources: sources.host.text("/proc/sys/kernel/random/boot_id").strip(),
    "broken_packages": software.read_broken_packages,
    "cpu": processors.read_cpu,
    "gpu_processes": processes.read_gpu_processes,
    "hcas": network.read_hcas,
    "holds": software.read_holds,
    "hostname": lambda sources: system.read_name(sources.host),
    "interfaces": network.read_interfaces,
    "kernel_modules": kernel.read_modules,
    "kernel_permits": kernel.read_permits,
    "limits": limits.read_limits,
    "memory_bytes": processors.read_memory_bytes,
    "mounts": disks.read_mounts,
    "nvidia_driver": kernel.read_nvidia_driver,
    "os": system.read_os,
    "packages": software.read_packages,
    "pci": pci.read_pci,
    "pythons": software.read_pythons,
    "reboot_required": software.read_reboot_required,
    "secure_boot": kernel.read_secure_boot,
    "shared_memory": disks.read_shared_memory,
    "simulated": lambda sources: simulated_profile(sources.host),
    "time": clock.read_time,
    "traces": lambda sources: _traces(sources.host),
    "unattended_upgrades": software.read_unattended_upgrades,
    "user": users.read_user,
}


def _traces(host: Host) -> dict[str, bool]:
    """Return which of our own things are on the host."""
    environments = [f"{places.ENVIRONMENTS}/{name}" for name in host.names(places.ENVIRONMENTS)]
    return {path: host.path(path).exists() for path in [*places.TRACES, *environments]}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return `ironlease.probe/1`. The request is not looked at."""
    return collect(Host(), Runner())


def collect(host: Host, runner: Runner) -> dict[str, Any]:
    """Read every part of the host; what one part cannot know costs no other part."""
    problems = Problems()
    sources = _sources(host, runner, problems)
    document: dict[str, Any] = {"schema": SCHEMA, "agent": self_file.describe(), "collected_at": utc_now()}
    for name, read in PARTS.items():
        try:
            document[name] = read(sources)
        except Unreadable as error:
            document[name] = None
            problems.add(name, error)
        except Exception as error:  # noqa: BLE001 - a part that meets what nobody foresaw must not cost the others
            document[name] = None
            problems.add(name, f"crash of the probe's own: {error!r}")
            traceback.print_exc(file=sys.stderr)
    document["problems"] = problems.entries
    return document


def commands(host: Host) -> dict[str, Command]:
    """Return every tool that the probe asks, to be started all at once."""
    wanted = {
        **clock.COMMANDS,
        **disks.COMMANDS,
        **network.COMMANDS,
        **software.COMMANDS,
        **system.COMMANDS,
        **disks.network_commands(host),
        **software.python_commands(host),
    }
    return wanted if host.is_root else {**wanted, "sudo": users.SUDO}


def _sources(host: Host, runner: Runner, problems: Problems) -> Sources:
    outcomes = runner.run_all(commands(host))
    try:
        return Sources(host, outcomes, problems, dpkg.read(host), "")
    except Unreadable as error:
        return Sources(host, outcomes, problems, None, str(error))


def simulated_profile(host: Host) -> str | None:
    """Return the profile's name when the PCI tree is a labelled simulation, None on real hardware.

    Raises Unreadable when there is a label that names no profile.
    """
    text = host.optional_text(SIMULATED_MARKER)
    if text is None:
        return None
    try:
        return str(json.loads(text)["profile"])
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"{SIMULATED_MARKER}: no JSON object with a profile: {error!r}") from error
