"""Network interfaces and RDMA adapters as the kernel shows them."""

from __future__ import annotations

import json
import re
from typing import Any

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.sources import Sources
from ironlease_node.text import whole_number
from ironlease_node.tools import OK, Command

COMMANDS = {"addresses": Command(["ip", "-json", "-details", "address"])}

INTERFACES_FOLDER = "/sys/class/net"
HCAS_FOLDER = "/sys/class/infiniband"

# ARPHRD numbers from the kernel's include/uapi/linux/if_arp.h.
_LOOPBACK_TYPE = "772"
_INFINIBAND_TYPE = "32"
_PCI_ADDRESS = re.compile(r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")

Links = dict[str, dict[str, Any]]


def read_interfaces(sources: Sources) -> list[dict[str, Any]]:
    """Return all interfaces, sorted by name. Hardware addresses are left out: nothing needs them, and they identify."""
    links: Links | None = None
    outcome = sources.outcomes["addresses"]
    try:
        if outcome.status != OK:
            raise Unreadable(outcome.reason)
        links = parse_addresses(outcome.stdout)
    except Unreadable as error:
        sources.problems.add("interfaces.addresses", error)
    if not sources.host.path(INTERFACES_FOLDER).is_dir():
        raise Unreadable(f"{INTERFACES_FOLDER}: not there")
    # `bonding_masters` is a file among the interfaces.
    names = [name for name in sources.host.names(INTERFACES_FOLDER) if name != "bonding_masters"]
    return [_interface(sources.host, name, links) for name in names]


def parse_addresses(text: str) -> Links:
    """Return `{interface: {"kind": ..., "addresses": [...]}}` from `ip -json -details address`.

    Raises Unreadable.
    """
    try:
        return {
            link["ifname"]: {
                "kind": link.get("linkinfo", {}).get("info_kind"),
                "addresses": [
                    {
                        "address": entry["local"],
                        "prefix_length": entry["prefixlen"],
                        "family": entry["family"],
                        "scope": entry["scope"],
                    }
                    for entry in link.get("addr_info", [])
                    if "local" in entry
                ],
            }
            # Interfaces that a filter hides are printed as empty objects.
            for link in json.loads(text)
            if "ifname" in link
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"ip: not the JSON that was asked for: {error!r}") from error


def _interface(host: Host, name: str, links: Links | None) -> dict[str, Any]:
    folder = f"{INTERFACES_FOLDER}/{name}"
    link = (links or {}).get(name, {})
    speed_mbps = whole_number(host.line(f"{folder}/speed"))
    device = host.link_name(f"{folder}/device")
    node = whole_number(host.line(f"{folder}/device/numa_node"))
    return {
        "name": name,
        "kind": _kind(host, folder, link.get("kind")),
        "state": host.line(f"{folder}/operstate"),
        # -1 while there is no link, and 4294967295 in some drivers.
        "speed_mbps": speed_mbps if speed_mbps is not None and 0 < speed_mbps < 2**31 else None,
        "mtu": whole_number(host.line(f"{folder}/mtu")),
        "master": host.link_name(f"{folder}/master"),
        "driver": host.link_name(f"{folder}/device/driver"),
        "pci_address": device if device is not None and _PCI_ADDRESS.match(device) else None,
        "numa_node": None if node is None or node < 0 else node,
        "addresses": None if links is None else link.get("addresses", []),
    }


def _kind(host: Host, folder: str, link_kind: str | None) -> str:
    kind = host.line(f"{folder}/type")
    if kind == _LOOPBACK_TYPE:
        return "loopback"
    if link_kind is not None:
        return link_kind
    for sign, word in (("bridge", "bridge"), ("bonding", "bond")):
        if host.path(f"{folder}/{sign}").is_dir():
            return word
    if "DEVTYPE=vlan" in (host.optional_text(f"{folder}/uevent") or "").splitlines():
        return "vlan"
    if kind == _INFINIBAND_TYPE:
        return "infiniband"
    return "physical" if host.path(f"{folder}/device").exists() else "virtual"


def read_hcas(sources: Sources) -> list[dict[str, Any]]:
    """Return the RDMA adapters; none where the kernel has no such class."""
    host = sources.host
    if not host.path("/sys/class").is_dir():
        raise Unreadable("/sys/class: not there")
    return [_hca(host, name) for name in host.names(HCAS_FOLDER)]


def _hca(host: Host, name: str) -> dict[str, Any]:
    folder = f"{HCAS_FOLDER}/{name}"
    device = host.link_name(f"{folder}/device")
    node = whole_number(host.line(f"{folder}/device/numa_node"))
    ports = [_port(host, folder, port) for port in host.names(f"{folder}/ports")]
    return {
        "name": name,
        "type": host.line(f"{folder}/hca_type"),
        "firmware": host.line(f"{folder}/fw_ver"),
        "board_id": host.line(f"{folder}/board_id"),
        "pci_address": device if device is not None and _PCI_ADDRESS.match(device) else None,
        "numa_node": None if node is None or node < 0 else node,
        "ports": ports,
    }


def _port(host: Host, folder: str, port: str) -> dict[str, Any]:
    place = f"{folder}/ports/{port}"
    devices = {host.line(f"{place}/gid_attrs/ndevs/{index}") for index in host.names(f"{place}/gid_attrs/ndevs")}
    return {
        "port": whole_number(port),
        "state": parse_state(host.line(f"{place}/state")),
        "physical_state": parse_state(host.line(f"{place}/phys_state")),
        "rate_gbps": parse_rate(host.line(f"{place}/rate")),
        "link_layer": host.line(f"{place}/link_layer"),
        "interfaces": sorted(device for device in devices if device),
    }


def parse_state(text: str | None) -> str | None:
    """Return the word of `4: ACTIVE`."""
    match = re.match(r"\d+: (\S+)", text or "")
    return match.group(1) if match else None


def parse_rate(text: str | None) -> float | None:
    """Return decimal Gbit/s of `400 Gb/sec (4X NDR)`."""
    match = re.match(r"(\d+(?:\.\d+)?) Gb/sec", text or "")
    return float(match.group(1)) if match else None
