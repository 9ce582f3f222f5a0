"""Which hosts there are, how they are reached, and what is known about their leases.

An inventory is ordinary Ansible YAML with a few ``ironlease_*`` variables; docs/reference/inventory.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ironlease import redact
from ironlease.errors import CombinedError, IronleaseError, UsageError, raise_all
from ironlease.finding import Finding
from ironlease.inventory import places
from ironlease.inventory.model import (
    DEFAULT_TRAINING_USER,
    PREFIX,
    Checkpoints,
    Expect,
    HostVariables,
    Tuning,
    variable_name,
)
from ironlease.inventory.places import InventorySource
from ironlease.lease import Lease
from ironlease.schema import shown_path, shown_value, validate
from ironlease.suggest import did_you_mean

if TYPE_CHECKING:
    from ironlease.inventory.source import RawHost

__all__ = [
    "DEFAULT_TRAINING_USER",
    "Checkpoints",
    "Expect",
    "Host",
    "Inventory",
    "Lease",
    "Tuning",
    "load",
    "variable_name",
]

SECRET_VARIABLES = (
    "ansible_become_pass",
    "ansible_become_password",
    "ansible_pass",
    "ansible_password",
    "ansible_ssh_pass",
    "ansible_ssh_password",
    "ansible_sudo_pass",
)


@dataclass(frozen=True)
class Host:
    """One host of the inventory.

    ``user``, ``port`` and ``private_key`` are None where the inventory is silent: OpenSSH's own configuration and the
    key made for this inventory then decide. ``ssh_arguments`` are OpenSSH options, templated.
    """

    name: str
    address: str
    groups: tuple[str, ...] = ()
    port: int | None = None
    user: str | None = None
    private_key: Path | None = None
    ssh_arguments: str = ""
    become: bool | None = None
    stack: str | None = None
    lease: Lease | None = None
    expect: Expect | None = None
    checkpoints: Checkpoints | None = None
    tuning: Tuning = field(default_factory=Tuning)
    training_user: str = DEFAULT_TRAINING_USER
    index_url: str | None = None
    apt_lock_wait_seconds: int | None = None


@dataclass(frozen=True)
class Inventory:
    """A read and validated inventory. ``warnings`` stop nothing: secrets in plain text, what Ansible warned of."""

    path: Path
    hosts: list[Host]
    groups: dict[str, list[str]]
    warnings: list[Finding]

    def host(self, name: str) -> Host:
        """Return the host called ``name``; raises UsageError with the nearest names."""
        return self.select([name], None)[0]

    def select(self, hosts: Iterable[str], group: str | None) -> list[Host]:
        """Return the named hosts and those of ``group``, each once, in the order of the inventory.

        Raises UsageError (all of them at once) for every unknown name, with the nearest known ones.
        """
        known = {host.name: host for host in self.hosts}
        wanted = list(hosts)
        errors: list[IronleaseError] = [
            self._unknown("host", name, known) for name in dict.fromkeys(wanted) if name not in known
        ]
        if group is not None and group not in self.groups:
            errors.append(self._unknown("group", group, self.groups))
        raise_all(errors)
        chosen = {*wanted, *(self.groups[group] if group is not None else ())}
        return [host for host in self.hosts if host.name in chosen]

    def _unknown(self, what: str, name: str, known: Iterable[str]) -> UsageError:
        return UsageError(
            code=f"unknown-{what}",
            found=f"{shown_path(self.path)} has no {what} {name!r}.",
            needed=f"A {what} of this inventory: {did_you_mean(name, known)}",
            next_step=places.list_command(self.path, "--graph"),
        )


def load(path: Path) -> Inventory:
    """Read and validate the inventory at ``path`` (a file or a folder).

    Raises UsageError, or a CombinedError of them, for everything that is wrong in it, with file and line where known.
    """
    from ironlease.inventory import source  # noqa: PLC0415 - it imports Ansible, which takes 0.2 s

    raw = source.read(path, SECRET_VARIABLES)
    if not raw.hosts:
        raise UsageError(
            code="inventory-empty",
            found=" ".join([f"{shown_path(path)} has no host.", *raw.warnings]),
            needed="At least one host.",
            next_step="invoke init",
        )
    hosts: list[Host] = []
    errors: dict[str, IronleaseError] = {}
    for entry in raw.hosts:
        try:
            hosts.append(_host(path, entry))
        except IronleaseError as error:
            # A mistake in a group's variables is one mistake, not one for each of its hosts.
            for one in error.errors if isinstance(error, CombinedError) else [error]:
                errors.setdefault(one.found, one)
    raise_all(list(errors.values()))
    warnings = [*_secret_findings(path, raw.hosts), *(_ansible_warning(path, text) for text in raw.warnings)]
    return Inventory(path, hosts, raw.groups, warnings)


def _host(path: Path, entry: RawHost) -> Host:
    ours = {name: value for name, value in entry.variables.items() if name.startswith(PREFIX)}
    read = validate(ours, HostVariables, InventorySource(path, entry.name))
    reach = {name: value for name, value in entry.variables.items() if value not in (None, "")}
    key = reach.get("ansible_ssh_private_key_file")
    arguments = [reach.get("ansible_ssh_common_args"), reach.get("ansible_ssh_extra_args")]
    _refuse_paths(path, entry.name)
    _refuse_other_connections(path, entry.name, reach.get("ansible_connection", "ssh"))
    return Host(
        name=entry.name,
        address=str(reach.get("ansible_host", entry.name)),
        groups=entry.groups,
        port=_port(path, entry.name, reach.get("ansible_port")),
        user=_text(reach.get("ansible_user")),
        private_key=None if key is None else Path(str(key)).expanduser(),
        ssh_arguments=" ".join(str(part) for part in arguments if part is not None),
        become=_flag(reach.get("ansible_become")),
        stack=read.stack,
        lease=read.lease,
        expect=read.expect,
        checkpoints=read.checkpoints,
        tuning=read.tuning,
        training_user=read.training_user,
        index_url=read.index_url,
        apt_lock_wait_seconds=read.apt_lock_wait_seconds,
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _flag(value: Any) -> bool | None:
    # Ansible takes yes, on, 1 and true for the same.
    return None if value is None else str(value).casefold() in {"yes", "on", "1", "true", "y", "t"}


def _port(path: Path, host: str, value: Any) -> int | None:
    if value is None:
        return None
    text = str(value)
    if not text.isdecimal() or not 0 < int(text) < 2**16:
        raise UsageError(
            code="bad-value",
            found=f"{host}: ansible_port is {shown_value(value)}.",
            needed="A port from 1 to 65535.",
            next_step=places.edit(path, host, "ansible_port"),
            host=host,
        )
    return int(text)


def _refuse_paths(path: Path, host: str) -> None:
    """Refuse a name that is more than a name: what is remembered of a host lies in a folder called like it."""
    if "/" in host or host.startswith((".", "-")) or not host.isprintable():
        raise UsageError(
            code="host-name",
            found=f"{shown_path(path)} calls a host {host!r}.",
            needed="A name without slashes and control characters, that begins with neither a dot nor a dash.",
            next_step=f"{places.list_command(path, '--graph')} shows where it stands; give it another name, and its "
            "address as ansible_host.",
            host=host,
        )


def _refuse_other_connections(path: Path, host: str, connection: str) -> None:
    if connection not in {"ssh", "smart", "paramiko", "ansible.builtin.ssh"}:
        raise UsageError(
            code="connection-unsupported",
            found=f"{host}: ansible_connection is {shown_value(connection)}.",
            needed="A connection over SSH: host keys are checked on every host, and a reboot must not end the command.",
            next_step=f"Remove it with {places.edit(path, host, 'ansible_connection')}",
            host=host,
        )


def _secret_findings(path: Path, entries: list[RawHost]) -> list[Finding]:
    """Return one finding for each place where a password stands in plain text; every password is masked from now on."""
    found: dict[tuple[str, str], list[str]] = {}
    for entry in entries:
        for name, secret in entry.secrets.items():
            redact.register(secret)
            found.setdefault((name, places.edit(path, entry.name, name)), []).append(entry.name)
    return [
        Finding(
            code="secret-in-inventory",
            severity="warn",
            found=f"{name} of {', '.join(hosts)} stands in the inventory in plain text.",
            needed="A password that is asked for, or read from a file that only you can read.",
            next_step=f"invoke enrol --host {','.join(hosts)} --password-file FILE, then remove it: {edit}",
        )
        for (name, edit), hosts in found.items()
    ]


def _ansible_warning(path: Path, text: str) -> Finding:
    return Finding(
        code="ansible-warning",
        severity="warn",
        found=f"Ansible warns about {shown_path(path)}: {text}",
        needed="An inventory that Ansible reads without warnings.",
        next_step=places.list_command(path, "--graph"),
    )
