"""Starts a phase of the training as an unprivileged user, and ends it when its time is over."""

from __future__ import annotations

import contextlib
import os
import pwd
import signal
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from ironlease_node.refusal import Refusal
from ironlease_node.text import without_credentials

LOG_TAIL_CHARACTERS = 4000
# torchrun ends its workers when it is asked to end; what is left after this is killed.
TERMINATE_GRACE_SECONDS = 3.0
KILL_GRACE_SECONDS = 2.0


class Account(NamedTuple):
    """An unprivileged user to run as. ``switch`` is False when the agent already is this user."""

    name: str
    uid: int
    gid: int
    groups: list[int]
    switch: bool


class Ending(NamedTuple):
    """How a phase ended. ``status`` is None when it was ended by us at its time limit, or could not be started."""

    status: int | None
    reason: str | None
    seconds: float


def find_account(name: str) -> Account:
    """Return the account to run as.

    Raises Refusal for an unknown user, for root, and for another user when the agent is not root.
    """
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise _account_refusal(name, f"There is no user {name!r} on this host.") from None
    if entry.pw_uid == 0:
        raise _account_refusal(name, f"{name!r} is root, and a training that runs as root proves nothing for others.")
    me = os.geteuid()
    if me not in {0, entry.pw_uid}:
        raise _account_refusal(name, f"The agent runs as {pwd.getpwuid(me).pw_name!r} and cannot become {name!r}.")
    groups = os.getgrouplist(name, entry.pw_gid)
    return Account(name, entry.pw_uid, entry.pw_gid, groups, switch=me == 0)


def _account_refusal(name: str, found: str) -> Refusal:
    return Refusal(
        code="bad-user",
        found=found,
        needed="An unprivileged user of this host, and an agent that is root or that user.",
        next_step=f"getent passwd {name}",
    )


def build_command(environment: Path, processes: int, script: Path, arguments: list[str]) -> list[str]:
    """Return the command line of one phase. The ranks meet on loopback, whatever the host's name resolves to."""
    return [
        str(environment / "bin" / "torchrun"),
        "--standalone",
        "--local-addr=127.0.0.1",
        f"--nproc-per-node={processes}",
        "--max-restarts=0",
        str(script),
        *arguments,
    ]


def build_environment(environment: Path, account: Account, home: Path) -> dict[str, str]:
    """Return a clean environment: nothing of the caller's, one thread for each rank."""
    return {
        "PATH": f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "USER": account.name,
        "LOGNAME": account.name,
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        # cuBLAS is deterministic only with a workspace of fixed size.
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
        "GLOO_SOCKET_IFNAME": "lo",
        "NCCL_SOCKET_IFNAME": "lo",
    }


def run(
    command: list[str],
    *,
    variables: dict[str, str],
    account: Account,
    folder: Path,
    log: Path,
    timeout_seconds: float,
) -> Ending:
    """Run one phase to its end or its time limit; what it prints goes to ``log``."""
    started_seconds = time.monotonic()
    with log.open("ab") as output:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=variables,
                umask=0o077,
                start_new_session=True,
                user=account.uid if account.switch else None,
                group=account.gid if account.switch else None,
                extra_groups=account.groups if account.switch else None,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return Ending(None, f"{command[0]} cannot be started by {account.name}: {error}", 0.0)
        try:
            status = process.wait(timeout=max(timeout_seconds, 0.01))
        except subprocess.TimeoutExpired:
            end(process)
            return Ending(None, "it was ended at its time limit", time.monotonic() - started_seconds)
        finally:
            # The agent itself may be interrupted while it waits.
            if process.poll() is None:
                end(process)
    return Ending(status, None, time.monotonic() - started_seconds)


def end(process: subprocess.Popen[bytes]) -> None:
    """End the process and everything under it, politely first. Each worker has a session of its own."""
    family = [process.pid, *descendants(process.pid)]
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=TERMINATE_GRACE_SECONDS)
    for pid in family:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=KILL_GRACE_SECONDS)


def descendants(pid: int) -> list[int]:
    """Return the processes below ``pid``, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                # The name, in parentheses, may hold anything; the parent is the second word after it.
                words = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
                children.setdefault(int(words[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def log_tail(log: Path) -> str:
    """Return the end of what was printed."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        return f"(the log cannot be read: {error.strerror})"
    return without_credentials(text[-LOG_TAIL_CHARACTERS:])
