"""The lab hosts and their addresses, from the one place that names them: inventories/lab/hosts.yml."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import yaml

from ironlease.errors import UsageError
from ironlease.lab.network import GATEWAY, SUBNET


def read_lab_hosts(path: Path) -> dict[str, str]:
    """Return the address of each host in the lab inventory, in the order of the file.

    Raises UsageError when the file is not there, or an address is missing, doubled or outside of the lab's network.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise _wrong(path, f"it cannot be read: {error}") from error
    hosts: dict[str, str] = {}
    for group in document.values() if isinstance(document, dict) else []:
        _collect(group, hosts, path)
    if not hosts:
        raise _wrong(path, "it names no host")
    if len(set(hosts.values())) != len(hosts):
        raise _wrong(path, "two hosts have the same address")
    return hosts


def _collect(group: Any, hosts: dict[str, str], path: Path) -> None:
    if not isinstance(group, dict):
        return
    for name, variables in (group.get("hosts") or {}).items():
        address = str((variables or {}).get("ansible_host", hosts.get(name, "")))
        _check_address(name, address, path)
        hosts[name] = address
    for child in (group.get("children") or {}).values():
        _collect(child, hosts, path)


def _check_address(name: str, address: str, path: Path) -> None:
    try:
        parsed = ipaddress.IPv4Address(address)
    except ValueError as error:
        raise _wrong(path, f"{name} has no valid ansible_host: {address!r}") from error
    if parsed not in SUBNET or parsed in {GATEWAY, SUBNET.network_address, SUBNET.broadcast_address}:
        raise _wrong(path, f"{name} has the address {address}")


def _wrong(path: Path, found: str) -> UsageError:
    return UsageError(
        code="lab-inventory",
        found=f"{path}: {found}.",
        needed=f"Lab hosts, each with an ansible_host of its own in {SUBNET} other than {GATEWAY}.",
        next_step=f"git checkout -- {path}",
    )
