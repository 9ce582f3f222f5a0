"""Processors and memory."""

from __future__ import annotations

import re
from typing import Any

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.sources import Sources

CPU_FOLDER = "/sys/devices/system/cpu"
NODE_FOLDER = "/sys/devices/system/node"


def read_cpu(sources: Sources) -> dict[str, Any]:
    """Return the model and the counts of sockets, cores, hardware threads and NUMA nodes."""
    host, problems = sources.host, sources.problems
    cpuinfo = host.text("/proc/cpuinfo")
    model = parse_model(cpuinfo)
    if model is None:
        problems.add("cpu.model", "/proc/cpuinfo names no model")
    sockets, cores = _topology(host)
    if sockets is None:
        problems.add("cpu.sockets", f"{CPU_FOLDER}: no topology")
    nodes = sum(1 for name in host.names(NODE_FOLDER) if re.fullmatch(r"node\d+", name))
    if nodes == 0:
        problems.add("cpu.numa_nodes", f"{NODE_FOLDER}: no nodes")
    return {
        "model": model,
        "sockets": sockets,
        "cores": cores,
        "threads": len(re.findall(r"^processor\s*:", cpuinfo, re.MULTILINE)),
        "numa_nodes": nodes or None,
    }


def parse_model(cpuinfo: str) -> str | None:
    """Return the first processor's model name; ARM kernels give none."""
    match = re.search(r"^model name\s*:\s*(\S.*)$", cpuinfo, re.MULTILINE)
    return match.group(1).strip() if match else None


def _topology(host: Host) -> tuple[int | None, int | None]:
    cores = set()
    for name in host.names(CPU_FOLDER):
        if not re.fullmatch(r"cpu\d+", name):
            continue
        package = host.line(f"{CPU_FOLDER}/{name}/topology/physical_package_id")
        core = host.line(f"{CPU_FOLDER}/{name}/topology/core_id")
        # A processor that is offline has no topology.
        if package is not None and core is not None:
            cores.add((package, core))
    if not cores:
        return None, None
    return len({package for package, _ in cores}), len(cores)


def read_memory_bytes(sources: Sources) -> int:
    """Return the memory that the kernel manages; a little less than what is built in."""
    match = re.search(r"^MemTotal:\s*(\d+) kB$", sources.host.text("/proc/meminfo"), re.MULTILINE)
    if match is None:
        raise Unreadable("/proc/meminfo: no MemTotal")
    return int(match.group(1)) * 1024
