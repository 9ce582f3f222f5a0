"""A logged-in host, as the operations use it: connection, root rights, agent."""

from __future__ import annotations

import getpass
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ironlease import enrol, ssh
from ironlease.agent import Agent, Archive, Privilege
from ironlease.enrol import Enrolment
from ironlease.errors import UnreachableError, UsageError
from ironlease.inventory import Host
from ironlease.paths import Project
from ironlease.ssh import Connection, Target, options

RETRY_PAUSE_SECONDS = 1.0
RETRY_TIMEOUT_SECONDS = 10.0


@dataclass
class Session:
    """One host that we are logged into."""

    host: Host
    connection: Connection
    privilege: Privilege
    agent: Agent

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


def target_of(project: Project, inventory: Path, host: Host) -> Target:
    """Return how ``host`` is reached: the inventory's word first, then ``~/.ssh/config``, then our own key."""
    user_options = ssh.user_options(host.address)
    ssh_options = {**options.parse(_as_arguments(user_options)), **options.parse(host.ssh_arguments)}
    key = host.private_key or enrol.key_path(project, inventory)
    return Target(
        name=host.name,
        address=user_options.get("hostname", host.address),
        port=host.port or int(user_options.get("port", "22")),
        user=host.user or user_options.get("user") or getpass.getuser(),
        keys=(key,),
        options=ssh_options,
    )


def _as_arguments(options: dict[str, str]) -> str:
    wanted = ("proxycommand", "proxyjump", "proxyusefdpass", "identitiesonly")
    return " ".join(f"-o '{name}={options[name]}'" for name in wanted if name in options)


def open_session(
    project: Project, inventory: Path, host: Host, archive: Archive, password: str | None = None
) -> Session:
    """Log into an enrolled host.

    ``password`` is for sudo where sudo asks for one. Raises UnreachableError and its kinds, and UsageError when
    sudo's password is needed and not there.
    """
    connection = ssh.connect(target_of(project, inventory, host), project.known_hosts)
    try:
        privilege = _privilege(project, connection, password)
    except BaseException:
        connection.close()
        raise
    return Session(host, connection, privilege, Agent(connection, archive, privilege))


def _privilege(project: Project, connection: Connection, password: str | None) -> Privilege:
    target = connection.target
    if target.user == "root":
        return Privilege.none()
    known = Enrolment.load(project, target.name)
    if known is not None and known.user == target.user and known.sudo == "passwordless":
        return Privilege.sudo()
    if known is not None and known.user == target.user and known.sudo == "password" and password is None:
        raise UsageError(
            code="sudo-password",
            found=f"{target.name}: sudo asks {target.user} for a password.",
            needed="That password, from a file or at a terminal.",
            next_step=f"Add --password-file FILE, or let {target.user} use sudo without a password.",
            host=target.name,
        )
    return enrol.find_sudo(connection, password)[1]


def wait_until_back(project: Project, target: Target, limit_seconds: float, cancelled: threading.Event) -> bool:
    """Wait until ``target`` can be logged into again; return whether it could within the limit.

    A host that shows another key is not the one that went away: HostKeyChangedError is raised at once.
    """
    deadline = time.monotonic() + limit_seconds
    while time.monotonic() < deadline and not cancelled.is_set():
        try:
            ssh.connect(target, project.known_hosts, timeout_seconds=RETRY_TIMEOUT_SECONDS).close()
        except UnreachableError as error:
            if not ssh.is_unreachable(error):
                raise
            cancelled.wait(RETRY_PAUSE_SECONDS)
        else:
            return True
    return False
