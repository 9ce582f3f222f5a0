"""SSH connections of this computer into a lab.

OpenSSH's connection masters stay for a minute after the last command. They notice the end of their host by themselves,
save after a power cut, where nothing tells them; so a lab that goes down ends those that are left.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from pathlib import Path

from ironlease.lab.mounts import is_mount_point
from ironlease.lab.processes import in_network, run

_PARTING_SECONDS = 2.0
_INODE_COLUMN = 9  # of /proc/net/tcp, see proc(5)


class LabClients:
    """The ``ssh`` processes that held a connection into one lab when this object was made.

    A process is held by a descriptor, not by its number, which may belong to another one a moment later.
    """

    def __init__(self, namespace: Path) -> None:
        self._descriptors: list[int] = []
        if not is_mount_point(namespace):
            return
        sockets = _sockets_in(namespace)
        for process in _processes_named("ssh"):
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(process)
                if sockets & _open_descriptors(process):
                    self._descriptors.append(descriptor)
                else:
                    os.close(descriptor)

    def __len__(self) -> int:
        return len(self._descriptors)

    def end(self) -> None:
        """Let the clients notice that their host is gone, and end those that do not."""
        for number in (0, signal.SIGTERM, signal.SIGKILL):
            for descriptor in self._descriptors:
                if number:
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(descriptor, number)
            if self._have_ended():
                break
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []

    def _have_ended(self) -> bool:
        """Wait a moment for the ends; a descriptor of a process can be read when the process has ended."""
        waiting = select.poll()
        for descriptor in self._descriptors:
            waiting.register(descriptor, select.POLLIN)
        left = len(self._descriptors)
        while left and (ended := waiting.poll(_PARTING_SECONDS * 1000)):
            for descriptor, _ in ended:
                waiting.unregister(descriptor)
            left -= len(ended)
        return left == 0


def _sockets_in(namespace: Path) -> set[str]:
    table = run(in_network(namespace, ["cat", "/proc/thread-self/net/tcp"]))
    return {f"socket:[{line.split()[_INODE_COLUMN]}]" for line in table.splitlines()[1:]}


def _processes_named(name: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text(encoding="utf-8", errors="replace").strip() == name:
                found.append(int(folder.name))
    return found


def _open_descriptors(process: int) -> set[str]:
    links = set()
    for descriptor in Path(f"/proc/{process}/fd").glob("*"):
        with contextlib.suppress(OSError):
            links.add(str(descriptor.readlink()))
    return links
