"""Who is using what at this moment: locks of the package manager, GPU devices."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.sources import Sources
from ironlease_node.text import without_credentials

COMMAND_LENGTH = 200

# Device nodes of NVIDIA's and Ascend's drivers that a training process opens.
_GPU_DEVICE = re.compile(r"/dev/(nvidia\d+|nvidiactl|nvidia-uvm|davinci\d+|davinci_manager)$")


class Lock(NamedTuple):
    """A lock that is held, from /proc/locks."""

    pid: int
    device: int
    inode: int


def parse_locks(text: str) -> list[Lock]:
    """Parse /proc/locks: `1: POSIX  ADVISORY  WRITE 714 fe:01:131 0 EOF`.

    Who only waits has `->` before the kind, so that no number stands in the fifth place; a lock of an open file
    description has -1 there.
    """
    locks = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 6 or not words[4].isdigit():
            continue
        major, minor, inode = words[5].split(":")
        locks.append(Lock(int(words[4]), os.makedev(int(major, 16), int(minor, 16)), int(inode)))
    return locks


def lock_holders(host: Host, paths: Iterable[str]) -> list[dict[str, Any]]:
    """Return who holds which of the lock files.

    Raises Unreadable.
    """
    locks = parse_locks(host.text("/proc/locks"))
    holders = []
    for path in paths:
        try:
            status = os.stat(host.path(path))  # noqa: PTH116 - follows links and keeps the error's kind
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from error
        for lock in locks:
            # On overlayfs and btrfs the two device numbers differ: then the open file decides.
            if lock.inode == status.st_ino and (lock.device == status.st_dev or _has_open(host, lock.pid, path)):
                holders.append({"path": path, "pid": lock.pid, "command": command_of(host, lock.pid)})
    return holders


def command_of(host: Host, pid: int) -> str | None:
    """Return a process's command line, shortened, or None when it has ended."""
    text = host.optional_text(f"/proc/{pid}/cmdline")
    if not text:
        return host.line(f"/proc/{pid}/comm")
    return without_credentials(" ".join(text.strip("\0").split("\0")))[:COMMAND_LENGTH]


def _has_open(host: Host, pid: int, path: str) -> bool:
    return path in _open_files(host, str(pid))


def _open_files(host: Host, pid: str) -> set[str]:
    try:
        entries = list(os.scandir(host.path(f"/proc/{pid}/fd")))
    except OSError:
        # It ended while we looked, or is not ours to look at; the caller says when the latter matters.
        return set()
    targets = set()
    for entry in entries:
        # A file may be closed while we look; the others must still be seen.
        with contextlib.suppress(OSError):
            # The text as it is: `socket:[123]` is no path.
            targets.add(os.readlink(entry.path))  # noqa: PTH115
    return targets


def read_gpu_processes(sources: Sources) -> list[dict[str, Any]]:
    """Return the processes that have a GPU open. Only their names: command lines of trainings may hold tokens."""
    host = sources.host
    if not any(_GPU_DEVICE.match(f"/dev/{name}") for name in host.names("/dev")):
        return []
    if not host.is_root:
        raise Unreadable("only root can see the open files of other users' processes")
    processes = []
    for pid in host.names("/proc"):
        if not pid.isdigit():
            continue
        devices = sorted(target for target in _open_files(host, pid) if _GPU_DEVICE.match(target))
        if devices:
            processes.append(
                {
                    "pid": int(pid),
                    "uid": _uid_of(host.optional_text(f"/proc/{pid}/status") or ""),
                    "command": host.line(f"/proc/{pid}/comm"),
                    "devices": devices,
                }
            )
    return sorted(processes, key=lambda process: process["pid"])


def _uid_of(status: str) -> int | None:
    match = re.search(r"^Uid:\s*(\d+)", status, re.MULTILINE)
    return int(match.group(1)) if match else None
