"""``invoke lab.*``: thin over :class:`ironlease.lab.lab.Lab`."""

from __future__ import annotations

import subprocess
import time

from ironlease.console import Table
from ironlease.errors import ExitCode, UnfinishedError, UsageError
from ironlease.lab.lab import Lab, LabHost
from ironlease.lease import shown_duration
from ironlease.ops.context import Context
from ironlease.ops.result import Result

COMMAND_TIMEOUT_SECONDS = 3600.0
# OpenSSH's own exit code for "no connection"; a remote command that exits with it cannot be told apart.
_NO_CONNECTION = 255


def up(context: Context, *, host: list[str], route_out: bool) -> Result:
    """Boot the named lab hosts, or all."""
    lab = _lab(context)
    started = time.monotonic()
    lab.up(host or None, route_out=route_out)
    seconds = time.monotonic() - started
    names = host or list(lab.hosts)
    return _listed(context, lab, f"{', '.join(names)} up after {seconds:.1f} s; next: invoke lab.ssh --host {names[0]}")


def down(context: Context, *, host: list[str], purge: bool) -> Result:
    """Remove the named lab hosts, or everything of the lab."""
    lab = _lab(context)
    lab.down(host or None, purge=purge)
    return _listed(context, lab, f"{', '.join(host)} removed." if host else "The lab is down; nothing of it is left.")


def reset(context: Context, *, host: list[str], route_out: bool) -> Result:
    """Boot the named lab hosts fresh."""
    lab = _lab(context)
    lab.reset(host, route_out=route_out)
    return _listed(context, lab, f"{', '.join(host)} as new.")


def list_hosts(context: Context) -> Result:
    """List the lab's hosts."""
    lab = _lab(context)
    running = sum(one.state == "running" for one in lab.list())
    return _listed(context, lab, f"{running} of {len(lab.hosts)} running.")


def ssh(context: Context, *, host: str, command: str | None) -> Result:
    """Open a shell on a lab host, or run ``command`` there; a host that is down is booted."""
    lab = _lab(context)
    if command is None and (context.json or not context.console.interactive):
        raise UsageError(
            found="lab.ssh has neither a terminal for a shell nor a command to run.",
            needed="--command COMMAND, or a terminal (and no --json).",
            next_step=f"invoke lab.ssh --host {host} --command 'systemctl is-system-running'",
        )
    lab.up([host])
    if command is None:
        # A person's shell lasts as long as the person likes.
        code = subprocess.run(lab.ssh_command(host), check=False).returncode
        return Result(data={"host": host}, exit_code=ExitCode.UNREACHABLE if code == _NO_CONNECTION else ExitCode.OK)
    done = _remote(lab, host, command)
    if done.stderr:
        context.console.note(done.stderr.rstrip("\n"))
    return Result(
        data={"host": host, "command_exit_code": done.returncode, "stdout": done.stdout, "stderr": done.stderr},
        lines=[done.stdout.rstrip("\n")] if done.stdout else [],
        summary="" if done.returncode == 0 else f"The command ended with exit code {done.returncode}.",
        exit_code=_exit_code(done.returncode),
    )


def _remote(lab: Lab, host: str, command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [*lab.ssh_command(host), command],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise UnfinishedError(
            code="command-too-slow",
            found=f"{command!r} on {host} was not done after {COMMAND_TIMEOUT_SECONDS / 60:.0f} minutes.",
            needed="A command that ends.",
            next_step=f"invoke lab.ssh --host {host}",
            host=host,
        ) from None


def _exit_code(code: int) -> ExitCode:
    if code == 0:
        return ExitCode.OK
    return ExitCode.UNREACHABLE if code == _NO_CONNECTION else ExitCode.FAIL


def _lab(context: Context) -> Lab:
    return Lab.here(context.project, context.console.note)


def _listed(context: Context, lab: Lab, summary: str) -> Result:
    listed = lab.list()
    table = Table(("host", "address", "state", "up for", "hardware"))
    for one in listed:
        hardware = f"SIMULATED: {one.profile}" if one.simulated else one.profile or "this computer's"
        table.rows.append((one.name, one.address, one.state, _up_for(context, one), hardware))
    hosts = {
        one.name: {
            "address": one.address,
            "state": one.state,
            "booted_since": one.booted_since.isoformat() if one.booted_since else None,
            "profile": one.profile,
            "simulated": one.simulated,
        }
        for one in listed
    }
    return Result(data={"hosts": hosts}, lines=[table], summary=summary)


def _up_for(context: Context, one: LabHost) -> str:
    return shown_duration(context.clock() - one.booted_since) if one.booted_since else ""
