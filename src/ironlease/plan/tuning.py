"""Limits, kernel parameters and shared memory for training; the part that is safe in a container, too."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import JsonValue

from ironlease.plan.case import Case
from ironlease.plan.model import Decision

GIB = 1 << 30
# The kernel's own ceiling (fs.nr_open) unless somebody raised it.
OPEN_FILES = 1048576
# Data-loader workers and NCCL share memory per GPU; without a GPU only the workers do.
SHM_GIB_PER_GPU = 4
SHM_GIB_AT_LEAST = 1


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter that training wants, and why."""

    name: str
    value: str
    reason: str
    only_with_numa: bool = False


PARAMETERS = (
    Parameter(
        "kernel.numa_balancing",
        "0",
        "moving pages between sockets stalls the buffers that GPUs and network cards read",
        only_with_numa=True,
    ),
    Parameter(
        "net.ipv4.tcp_rmem",
        "4096 131072 67108864",
        "one TCP connection can fill a long path while a checkpoint is restored",
    ),
    Parameter(
        "net.ipv4.tcp_wmem",
        "4096 65536 67108864",
        "one TCP connection can fill a long path while a checkpoint is stored",
    ),
    Parameter(
        "vm.max_map_count",
        "1048576",
        "data loaders map thousands of shards; the usual 65530 ends in `Cannot allocate memory`",
    ),
)


def decide(case: Case) -> list[Decision]:
    """Return the decisions of the role node_tuning."""
    return [*_limits(case), *_sysctl(case), _shm_size(case)]


def _limits(case: Case) -> list[Decision]:
    may_raise = case.facts.flag("kernel_permits.raise_limits")
    items = [_memlock(case, may_raise), _open_files(case, may_raise)]
    value: JsonValue = {"memlock": items[0].value, "nofile": items[1].value}
    whole = Decision(
        key="node_tuning.limits",
        value=value,
        reason="RDMA pins memory and data loaders open many files; each limit is explained by itself",
        evidence="node_tuning.limits[memlock], node_tuning.limits[nofile]",
        source="default",
        changes_with="ironlease_tuning.open_files in the inventory, or what the kernel permits",
    )
    return [whole, *items]


def _memlock(case: Case, may_raise: bool | None) -> Decision:
    hard = case.facts.peek("limits.memlock_bytes.hard")
    permitted = bool(may_raise) or hard == "unlimited"
    return Decision(
        key="node_tuning.limits[memlock]",
        value="unlimited" if permitted else None,
        reason="RDMA registers as much memory as a training uses, and registered memory is locked",
        evidence=f"probe: kernel_permits.raise_limits is {may_raise}, limits.memlock_bytes.hard is {hard}",
        source="default" if permitted else "probe",
        changes_with="a host whose kernel lets root raise limits (CAP_SYS_RESOURCE)",
        skipped=None if permitted else f"this kernel does not let root raise the limit above {hard} bytes",
    )


def _open_files(case: Case, may_raise: bool | None) -> Decision:
    wanted = case.host.tuning.open_files or OPEN_FILES
    hard = case.facts.peek("limits.open_files.hard")
    capped = not may_raise and isinstance(hard, int) and hard < wanted
    from_inventory = case.host.tuning.open_files is not None
    return Decision(
        key="node_tuning.limits[nofile]",
        value=hard if capped else wanted,
        reason="every shard, worker and connection of a training is an open file"
        + (f"; this kernel does not let root raise the limit above {hard}" if capped else ""),
        evidence=f"probe: kernel_permits.raise_limits is {may_raise}, limits.open_files.hard is {hard}",
        source="probe" if capped else "inventory" if from_inventory else "default",
        changes_with="ironlease_tuning.open_files in the inventory",
    )


def _sysctl(case: Case) -> list[Decision]:
    numa_nodes = case.facts.number("cpu.numa_nodes")
    own = case.host.tuning.sysctl
    wanted = {
        parameter.name: (parameter.value, parameter.reason)
        for parameter in PARAMETERS
        if not parameter.only_with_numa or (numa_nodes or 1) > 1
    }
    wanted |= {name: (value, "the inventory asks for it") for name, value in own.items()}
    items = [_parameter(case, name, *wanted[name]) for name in sorted(wanted)]
    values: JsonValue = {name: item.value for name, item in zip(sorted(wanted), items, strict=True) if not item.skipped}
    whole = Decision(
        key="node_tuning.sysctl",
        value=values,
        reason="what training wants, as far as this kernel permits; each parameter is explained by itself",
        evidence="probe: kernel_permits.sysctl, cpu.numa_nodes",
        source="default",
        changes_with="ironlease_tuning.sysctl in the inventory, or what the kernel permits",
    )
    return [whole, *items]


def _parameter(case: Case, name: str, value: str, reason: str) -> Decision:
    area = name.partition(".")[0]
    # Areas that the probe does not test (dev, abi) are root's on any kernel that has them.
    tested = area in case.facts.mapping("kernel_permits.sysctl")
    permitted = case.facts.flag(f"kernel_permits.sysctl.{area}") if tested else True
    return Decision(
        key=f"node_tuning.sysctl[{name}]",
        value=value if permitted else None,
        reason=reason,
        evidence=f"probe: kernel_permits.sysctl.{area} is {permitted}" if tested else "not tested by the probe",
        source="inventory" if name in case.host.tuning.sysctl else "default",
        changes_with=f"ironlease_tuning.sysctl in the inventory: {{{name}: VALUE}}",
        skipped=None if permitted else f"this kernel does not let root set {area}.*",
    )


def _shm_size(case: Case) -> Decision:
    size, memory = case.facts.number("shared_memory.size_bytes"), case.facts.number("memory_bytes")
    gpus = len(case.nvidia_ids or [])
    needed = shm_needed_bytes(case.host.tuning.shm_gib, gpus, memory or 0)
    from_inventory = case.host.tuning.shm_gib is not None
    # At exactly the needed size it stays managed: otherwise the second run would forget what the first one set.
    is_enough = size is not None and (size > needed and not from_inventory)
    value: JsonValue = None if is_enough or size is None else {"size_bytes": needed, "options": f"size={needed}"}
    return Decision(
        key="node_tuning.shm_size",
        value=value,
        reason=f"data-loader workers and NCCL share memory in /dev/shm; {needed // GIB} GiB are needed here"
        + (", and it is larger" if is_enough else ""),
        evidence=f"probe: shared_memory.size_bytes is {size}, memory_bytes is {memory}, {gpus} GPUs",
        source="inventory" if from_inventory else "probe",
        changes_with="ironlease_tuning.shm_gib in the inventory",
    )


def shm_needed_bytes(asked_gib: int | None, gpus: int, memory_bytes: int) -> int:
    """Return the size that /dev/shm needs: what was asked for, else by GPUs, at most half of the memory."""
    if asked_gib is not None:
        return asked_gib * GIB
    by_gpus = max(SHM_GIB_AT_LEAST, SHM_GIB_PER_GPU * gpus)
    half_gib = memory_bytes // 2 // GIB
    return max(1, min(by_gpus, half_gib)) * GIB
