"""Waits until hosts answer over SSH."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from ironlease.lab.connect import enter_network
from ironlease.lab.errors import LabError
from ironlease.lab.host import Host

_ATTEMPT_SECONDS = 1.0
_POLL_SECONDS = 0.05
# A keeper enters its control group within milliseconds; later than this, an empty group means that it has ended.
_KEEPER_START_SECONDS = 5.0


def wait_for_ssh(namespace: Path, hosts: Sequence[Host], limit_seconds: float) -> None:
    """Return when the SSH server of every host has greeted us.

    Raises LabError, naming the first host that ended or stayed silent, with the end of its console.
    """
    given_up = Event()
    # These threads move into the lab's network for good, so they belong to this pool alone.
    with ThreadPoolExecutor(len(hosts), initializer=enter_network, initargs=(str(namespace),)) as pool:
        try:
            for wait in [pool.submit(_wait_for_one, host, limit_seconds, given_up) for host in hosts]:
                wait.result()
        finally:
            given_up.set()  # Ctrl-C, too, ends the other waits at once


def _wait_for_one(host: Host, limit_seconds: float, given_up: Event) -> None:
    started = time.monotonic()
    while not _greets(host.address):
        waited_seconds = time.monotonic() - started
        if waited_seconds > _KEEPER_START_SECONDS and not host.is_running:
            raise _failed(host, "ended while booting")
        if waited_seconds > limit_seconds:
            raise _failed(host, f"does not answer over SSH after {limit_seconds:g} s")
        if given_up.wait(_POLL_SECONDS):
            return


def _greets(address: str) -> bool:
    with (
        contextlib.suppress(OSError),
        socket.create_connection((address, 22), timeout=_ATTEMPT_SECONDS) as connection,
    ):
        return connection.recv(4) == b"SSH-"
    return False


def _failed(host: Host, what: str) -> LabError:
    return LabError(
        code="lab-boot",
        found=f"The lab host {host.name} {what}; its console ends with: {host.log_end() or 'nothing'}.",
        needed="A host that boots.",
        next_step=f"invoke lab.reset --host {host.name}",
        host=host.name,
    )
