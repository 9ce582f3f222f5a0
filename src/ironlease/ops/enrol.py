"""``invoke enrol``: first contact with hosts, and the part of every other operation that makes first contact."""

from __future__ import annotations

from dataclasses import dataclass

from ironlease import enrol as first_contact
from ironlease import ssh
from ironlease.agent import Privilege
from ironlease.console import Table
from ironlease.enrol import Enrolment
from ironlease.errors import IronleaseError, UsageError
from ironlease.inventory import Host
from ironlease.ops import fleet, hosts
from ironlease.ops.context import Context
from ironlease.ops.passwords import Passwords
from ironlease.ops.result import Result
from ironlease.ops.session import target_of
from ironlease.ssh import Connection, HostKey, LoginRefusedError, Target


@dataclass(frozen=True)
class FirstContact:
    """What the user said about first contact on the command line."""

    fingerprint: str | None = None
    disable_password_login: bool = False


def run(
    context: Context,
    *,
    host: list[str],
    group: str | None = None,
    fingerprint: str | None = None,
    password_file: str | None = None,
    disable_password_login: bool = False,
) -> Result:
    """Pin the host keys, install our key, find out about sudo."""
    chosen = hosts.select(context, host, group)
    contact = FirstContact(fingerprint, disable_password_login)
    enrolled, errors = enrol_hosts(context, chosen, contact, Passwords(context.console, password_file))
    table = Table(("host", "host key", "login", "root by", "our key"))
    for name, record in enrolled.items():
        table.rows.append((name, record.fingerprint, record.user, record.sudo, record.key_file or "not needed"))
    return Result(
        data={"hosts": {name: record.to_json() for name, record in enrolled.items()}},
        lines=[table] if enrolled else [],
        summary=f"{len(enrolled)} of {len(chosen.hosts)} enrolled.",
        errors=errors,
    )


def enrol_hosts(
    context: Context, chosen: hosts.Chosen, contact: FirstContact, passwords: Passwords
) -> tuple[dict[str, Enrolment], list[IronleaseError]]:
    """Enrol all chosen hosts; one after the other where a person has to be asked, else side by side."""
    if contact.fingerprint is not None and len(chosen.hosts) > 1:
        raise UsageError(
            found=f"--fingerprint was given for {len(chosen.hosts)} hosts.",
            needed="One host at a time: a fingerprint belongs to one host key.",
            next_step=f"invoke enrol --host {chosen.hosts[0].name} --fingerprint {contact.fingerprint}",
        )

    def one(host: Host) -> Enrolment:
        return enrol_host(context, chosen, host, contact, passwords)

    if not context.console.interactive:
        return fleet.each(chosen.hosts, lambda host: host.name, one)
    enrolled: dict[str, Enrolment] = {}
    errors: list[IronleaseError] = []
    for host in chosen.hosts:
        answers, failed = fleet.each([host], lambda each: each.name, one)
        enrolled.update(answers)
        errors.extend(failed)
    return enrolled, errors


def enrol_host(
    context: Context, chosen: hosts.Chosen, host: Host, contact: FirstContact, passwords: Passwords
) -> Enrolment:
    """Make first contact with one host, or find that it was made and still holds."""
    project = context.project
    target = target_of(project, chosen.inventory, host)
    key = first_contact.pin_host_key(
        project,
        target,
        vouched=chosen.vouched_key(host.name),
        fingerprint=contact.fingerprint,
        confirm=(lambda shown: _confirm(context, target, shown)) if context.console.interactive else None,
    )
    with _log_in(context, target, passwords) as connection:
        key_file = connection.key_file
        sudo, privilege = _find_sudo(connection, passwords)
        if contact.disable_password_login:
            first_contact.disable_password_login(connection, privilege)
    record = Enrolment(host.name, key.fingerprint, target.user, sudo, str(key_file) if key_file else None)
    record.save(project)
    return record


def _confirm(context: Context, target: Target, key: HostKey) -> bool:
    context.console.note(f"{target.name} ({target.address}) shows the {key.kind} host key {key.fingerprint}")
    return context.console.confirm("Is this the fingerprint that the provider shows for it?")


def _log_in(context: Context, target: Target, passwords: Passwords) -> Connection:
    """Return a connection that was opened with a key.

    A password is used once, to install our key; that the key works is proved by logging in again with it alone.
    """
    known_hosts = context.project.known_hosts
    try:
        return ssh.connect(target, known_hosts)
    except LoginRefusedError:
        if passwords.given is None and not passwords.can_ask:
            raise
    with ssh.connect(target, known_hosts, password=passwords.for_login(target)) as connection:
        first_contact.install_key(connection, first_contact.ensure_key(target.keys[0], f"ironlease {target.name}"))
    return ssh.connect(target, known_hosts)


def _find_sudo(connection: Connection, passwords: Passwords) -> tuple[str, Privilege]:
    try:
        return first_contact.find_sudo(connection, passwords.given)
    except first_contact.SudoMissingError:
        if not passwords.can_ask:
            raise
    return first_contact.find_sudo(connection, passwords.for_sudo(connection.target))
