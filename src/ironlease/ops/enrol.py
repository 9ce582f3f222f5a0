"""``invoke enrol``: first contact with hosts, and the part of every other operation that makes first contact."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ironlease import enrol as first_contact
from ironlease import redact, ssh
from ironlease.agent import Privilege
from ironlease.console import Table
from ironlease.enrol import Enrolment
from ironlease.errors import IronleaseError, UsageError
from ironlease.inventory import Host
from ironlease.ops import fleet, hosts
from ironlease.ops.context import Context
from ironlease.ops.result import Result
from ironlease.ops.session import target_of
from ironlease.ssh import Connection, HostKey, LoginRefusedError, Target


@dataclass(frozen=True)
class FirstContact:
    """What the user said about first contact on the command line."""

    fingerprint: str | None = None
    password_file: str | None = None
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
    contact = FirstContact(fingerprint, password_file, disable_password_login)
    enrolled, errors = enrol_hosts(context, chosen, contact)
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
    context: Context, chosen: hosts.Chosen, contact: FirstContact
) -> tuple[dict[str, Enrolment], list[IronleaseError]]:
    """Enrol all chosen hosts; one after the other where a person has to be asked, else side by side."""
    if contact.fingerprint is not None and len(chosen.hosts) > 1:
        raise UsageError(
            found=f"--fingerprint was given for {len(chosen.hosts)} hosts.",
            needed="One host at a time: a fingerprint belongs to one host key.",
            next_step=f"invoke enrol --host {chosen.hosts[0].name} --fingerprint {contact.fingerprint}",
        )
    contact_password = password(context, contact.password_file)

    def one(host: Host) -> Enrolment:
        return enrol_host(context, chosen, host, contact, contact_password)

    if not context.console.interactive:
        return fleet.each(chosen.hosts, lambda host: host.name, one)
    enrolled: dict[str, Enrolment] = {}
    errors: list[IronleaseError] = []
    for host in chosen.hosts:
        answers, failed = fleet.each([host], lambda each: each.name, one)
        enrolled.update(answers)
        errors.extend(failed)
    return enrolled, errors


def password(context: Context, path: str | None) -> str | None:
    """Return the password in the file ``path``; its last newline is not part of it."""
    if path is None:
        return None
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            code="password-file",
            found=f"The password file {path} cannot be read ({error}).",
            needed="A readable file that holds the password and nothing else.",
            next_step=f"install -m 600 /dev/stdin {path} (then type the password, Enter, Ctrl-D)",
        ) from error
    redact.register(text)
    return text


def enrol_host(
    context: Context, chosen: hosts.Chosen, host: Host, contact: FirstContact, given_password: str | None
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
    connection, key_file = _log_in(context, target, given_password)
    with connection:
        sudo, privilege = _find_sudo(context, connection, given_password)
        if contact.disable_password_login:
            first_contact.disable_password_login(connection, privilege)
    record = Enrolment(host.name, key.fingerprint, target.user, sudo, key_file)
    record.save(project)
    return record


def _confirm(context: Context, target: Target, key: HostKey) -> bool:
    context.console.note(f"{target.name} ({target.address}) shows the {key.kind} host key {key.fingerprint}")
    return context.console.confirm("Is this the fingerprint that the provider shows for it?")


def _log_in(context: Context, target: Target, given_password: str | None) -> tuple[Connection, str | None]:
    """Return a connection that was opened with a key, and our key's file where it is ours that opened it.

    A password is used once, to install our key; that the key works is proved by logging in again with it alone.
    """
    known_hosts = context.project.known_hosts
    own_key = target.keys[0]
    try:
        return ssh.connect(target, known_hosts), str(own_key) if own_key.exists() else None
    except LoginRefusedError:
        if given_password is None and not context.console.interactive:
            raise
    secret = given_password or context.console.password(f"Password of {target.user} on {target.name}:")
    with ssh.connect(target, known_hosts, password=secret) as connection:
        first_contact.install_key(connection, first_contact.ensure_key(own_key, f"ironlease {target.name}"))
    return ssh.connect(target, known_hosts), str(own_key)


def _find_sudo(context: Context, connection: Connection, given_password: str | None) -> tuple[str, Privilege]:
    try:
        return first_contact.find_sudo(connection, given_password)
    except first_contact.SudoMissingError:
        if given_password is not None or not context.console.interactive:
            raise
    target = connection.target
    return first_contact.find_sudo(
        connection, context.console.password(f"sudo password of {target.user} on {target.name}:")
    )
