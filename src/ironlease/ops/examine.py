"""What an operation finds out about a host before it decides: probe, plan, and whether all is as it should be."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from ironlease import footprint
from ironlease.agent import Archive
from ironlease.errors import UnreachableError, UsageError, raise_all
from ironlease.finding import Finding
from ironlease.inventory import Host
from ironlease.ops.context import Context
from ironlease.ops.hosts import Chosen
from ironlease.ops.passwords import Passwords
from ironlease.ops.session import RETRY_PAUSE_SECONDS, Session, open_session, target_of, wait_until_back
from ironlease.plan import Plan, resolve
from ironlease.provision_lock import ProvisionLock
from ironlease.ssh import is_unreachable
from ironlease.stack import Stack, load


@dataclass
class Examined:
    """One host, logged into and looked at. Close it when the work on it is done."""

    session: Session
    probe: dict[str, Any]
    plan: Plan
    key: str
    lock: ExitStack = field(default_factory=ExitStack)
    # Seen when the host came back after its connection was lost.
    reboots: int = 0

    @property
    def host(self) -> Host:
        """The host as the inventory has it."""
        return self.session.host

    @property
    def warnings(self) -> list[Finding]:
        """The findings that a person should have read."""
        return [finding for finding in self.plan.findings if finding.severity == "warn"]

    def close(self) -> None:
        """Give the lock back and close the connection."""
        self.lock.close()
        self.session.close()


class Examiner:
    """Opens hosts and examines them, all for one command."""

    def __init__(self, context: Context, chosen: Chosen, *, stack: str | None, passwords: Passwords) -> None:
        self._context = context
        self._chosen = chosen
        self._stack_name = stack
        self._passwords = passwords
        self.archive = Archive.build(context.project)

    def examine(self, host: Host, *, lock: bool) -> Examined:
        """Log into ``host``, take its provisioning lock when ``lock``, probe it and resolve its plan."""
        stack = self.stack_of(host)
        session = self.open(host)
        held = ExitStack()
        try:
            if lock:
                held.enter_context(ProvisionLock(session.agent, f"invoke {self._context.command}"))
            probe = session.agent.ask("probe")
            plan = resolve(stack, probe, host, self._context.clock(), agent_sha256=self.archive.sha256)
        except BaseException:
            held.close()
            session.close()
            raise
        key = footprint.inputs_key(self._context.project, plan.values)
        return Examined(session, probe, plan, key, held)

    def open(self, host: Host) -> Session:
        """Log into ``host``."""
        return open_session(self._context.project, self._chosen.inventory, host, self.archive, self._passwords.given)

    def reopen(self, examined: Examined, limit_seconds: float, cancelled: threading.Event) -> bool:
        """Wait for a host that went away, log in again and take its lock again; return whether that succeeded.

        The probe's ``boot_id`` is brought up to date, and a reboot is counted.
        """
        examined.close()
        target = target_of(self._context.project, self._chosen.inventory, examined.host)
        deadline = time.monotonic() + limit_seconds
        while wait_until_back(self._context.project, target, deadline - time.monotonic(), cancelled):
            try:
                examined.session = self.open(examined.host)
                examined.lock = ExitStack()
                examined.lock.enter_context(ProvisionLock(examined.session.agent, f"invoke {self._context.command}"))
                boot_id = examined.session.agent.ask("probe")["boot_id"]
            except UnreachableError as error:
                # A host that is just booting, or just going down, lets somebody in and drops the connection.
                if not is_unreachable(error):
                    raise
                examined.close()
                cancelled.wait(RETRY_PAUSE_SECONDS)
            else:
                examined.reboots += boot_id != examined.probe["boot_id"]
                examined.probe["boot_id"] = boot_id
                return True
        return False

    def stack_of(self, host: Host) -> Stack:
        """Return the stack that ``host`` is to get. Raises UsageError when there is none, or none of that name."""
        name = self._stack_name or host.stack
        if name is None:
            raise UsageError(
                code="no-stack",
                found=f"{host.name} has no stack in {self._chosen.inventory}.",
                needed="The set of versions that it should get.",
                next_step=f"Add --stack NAME (`invoke stacks` lists them), or ironlease_stack to {host.name}.",
                host=host.name,
            )
        return load(name)


def refuse_blocked(examined: Examined) -> None:
    """Raise all findings that forbid to provision the host, as one error with the whole list."""
    raise_all([finding.as_error(examined.host.name) for finding in examined.plan.blocking])


def observe(project_context: Context, examined: Examined) -> dict[str, Any] | None:
    """Return the observation of everything that the roles manage on the host.

    None when it is not known what the roles would manage now, so that they have to run to find out.
    """
    known = footprint.load(project_context.project, examined.host.name, examined.key)
    if known is None:
        return None
    observation = examined.session.agent.ask("observe", known)
    # An answer about other things than were asked for is none.
    return observation if observation["total"] == len(known["things"]) else None


def is_as_wanted(observation: dict[str, Any] | None) -> bool:
    """Return whether everything was observed, and is as it should be."""
    return (
        observation is not None
        and observation["total"] > 0
        and observation["as_wanted"] == observation["total"]
        and not observation["differences"]
    )
