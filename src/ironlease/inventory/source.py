"""Reads an inventory through Ansible's own library, so that groups, ranges and templates mean what they mean there.

The only module that imports ``ansible``; that takes 0.2 s, so this module is imported only when an inventory is read.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader
from ansible.template import Templar
from ansible.vars.manager import VariableManager

from ironlease.errors import UsageError
from ironlease.inventory import places
from ironlease.inventory.model import PREFIX
from ironlease.inventory.places import yaml_files
from ironlease.schema import check_yaml, shown_path

# The variables of Ansible's that say how a host is reached.
CONNECTION_VARIABLES = (
    "ansible_become",
    "ansible_connection",
    "ansible_host",
    "ansible_port",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_ssh_private_key_file",
    "ansible_user",
)


@dataclass(frozen=True)
class RawHost:
    """One host as Ansible sees it: the variables that we read, templated, as plain Python values.

    ``secrets`` holds the named secret variables that stand in plain text; their values go nowhere but to the masking.
    """

    name: str
    groups: tuple[str, ...]
    variables: dict[str, Any]
    secrets: dict[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RawInventory:
    """All hosts in the inventory's order, the hosts of each group, and what Ansible warned of."""

    hosts: list[RawHost]
    groups: dict[str, list[str]]
    warnings: list[str]


def read(path: Path, secret_names: tuple[str, ...]) -> RawInventory:
    """Read the inventory at ``path`` (a file or a folder).

    Raises UsageError when it is missing, when a file in it is no YAML, and for everything that Ansible refuses.
    """
    if not path.exists():
        raise UsageError(
            code="unknown-inventory",
            found=f"There is no inventory at {shown_path(path)}.",
            needed="An inventory file, or a folder with one.",
            next_step="invoke init",
        )
    for file in yaml_files(path):
        _check_syntax(file)
    printed = io.StringIO()
    try:
        # Ansible warns on stderr and sometimes leaves by sys.exit; both become part of our own answer.
        with contextlib.redirect_stderr(printed), contextlib.redirect_stdout(printed), warnings.catch_warnings():
            # Python's own warnings are about Ansible being set up twice in one process, never about the inventory.
            warnings.simplefilter("ignore")
            hosts, groups = _load(path, secret_names)
    except (Exception, SystemExit) as error:  # its plugins raise what they like
        raise _refusal(path, error, printed.getvalue()) from error
    return RawInventory(hosts, groups, _warnings(printed.getvalue()))


def _load(path: Path, secret_names: tuple[str, ...]) -> tuple[list[RawHost], dict[str, list[str]]]:
    # By default a file that cannot be parsed is a warning, and its hosts are silently missing.
    constants.INVENTORY_ANY_UNPARSED_IS_FAILED = True
    # Without it a template cannot name a plugin in full (`ansible.builtin.env`).
    init_plugin_loader([])
    loader = DataLoader()
    manager = InventoryManager(loader=loader, sources=[str(path)])
    variables = VariableManager(loader=loader, inventory=manager)
    hosts = [_raw_host(loader, variables, host, secret_names) for host in manager.get_hosts()]
    groups = {str(name): [str(host) for host in members] for name, members in manager.get_groups_dict().items()}
    return hosts, groups


def _raw_host(loader: Any, variables: Any, host: Any, secret_names: tuple[str, ...]) -> RawHost:
    values = variables.get_vars(host=host, include_hostvars=False)
    templar = Templar(loader=loader, variables=values)
    wanted = [name for name in values if name.startswith(PREFIX) or name in CONNECTION_VARIABLES]
    # A value from the vault is no str before it is decrypted, and one from a template is written elsewhere.
    secrets = {
        name: str(values[name])
        for name in secret_names
        if isinstance(values.get(name), str) and "{{" not in values[name]
    }
    return RawHost(
        name=str(host.name),
        groups=tuple(sorted(str(group) for group in values.get("group_names", []))),
        variables={str(name): _plain(templar.template(values[name])) for name in wanted},
        secrets=secrets,
    )


def _plain(value: Any) -> Any:
    """Return Ansible's tagged value as the plain one that it looks like."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, date):  # a datetime too: YAML makes them of unquoted times
        return value.isoformat()
    if value is None or isinstance(value, bool):
        return value
    return next((kind(value) for kind in (str, int, float) if isinstance(value, kind)), value)


def _check_syntax(file: Path) -> None:
    try:
        encrypted = file.read_bytes().startswith(b"$ANSIBLE_VAULT")
    except OSError:
        encrypted = False
    if not encrypted:
        check_yaml(file)


def _warnings(printed: str) -> list[str]:
    joined = " ".join(printed.split())
    parts = joined.split("[WARNING]: ")[1:]
    return [part.split("[DEPRECATION WARNING]")[0].strip() for part in parts]


def _refusal(path: Path, error: BaseException, printed: str) -> UsageError:
    words = " ".join(part for part in (*_warnings(printed), str(error)) if part)
    return UsageError(
        code="inventory-broken",
        found=f"Ansible cannot read the inventory {shown_path(path)}: {' '.join(words.split())[:600]}",
        needed="An inventory that `ansible-inventory` lists without errors.",
        next_step=places.list_command(path, "--list"),
    )
