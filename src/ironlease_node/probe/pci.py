"""Accelerators, NVSwitches and network adapters, from the kernel's list of PCI devices; no driver is needed.

Sources of the ids: NVIDIA's vendor id and class codes from the PCI id database; Ascend's device ids (d801 is the 910,
d802 the 910B, d803 the A3, d500 the 310P) from Huawei's ascend-deployer 26.0.0.
"""

from __future__ import annotations

import re
from typing import Any

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.sources import Sources
from ironlease_node.text import whole_number

DEVICES_FOLDER = "/sys/bus/pci/devices"

NVIDIA = "10de"
HUAWEI = "19e5"
GPU_CLASSES = {"0300", "0302"}
NVSWITCH_CLASS = "0680"
_ASCEND_DEVICE = re.compile(r"^(d80.|d500)$")


def read_pci(sources: Sources) -> dict[str, list[dict[str, Any]]]:
    """Return the devices of interest by what they are for."""
    return pci_devices(sources.host)


def pci_devices(host: Host) -> dict[str, list[dict[str, Any]]]:
    """Return accelerators, NVSwitches and network adapters, sorted by address.

    Raises Unreadable when the kernel shows no PCI bus.
    """
    if not host.path(DEVICES_FOLDER).is_dir():
        raise Unreadable(f"{DEVICES_FOLDER}: not there")
    groups: dict[str, list[dict[str, Any]]] = {"accelerators": [], "nvswitches": [], "network": []}
    for address in host.names(DEVICES_FOLDER):
        if address.startswith("."):
            continue
        folder = f"{DEVICES_FOLDER}/{address}"
        group, extra = classify(_id(host, folder, "vendor"), _id(host, folder, "device"), _class(host, folder))
        if group is not None:
            groups[group].append({**_device(host, address), **extra})
    return groups


def classify(vendor: str | None, device: str | None, code: str | None) -> tuple[str | None, dict[str, str]]:
    """Return the group that a device belongs to, and the keys that only that group has."""
    if vendor == NVIDIA and code in GPU_CLASSES:
        return "accelerators", {"kind": "gpu"}
    if vendor == HUAWEI and device is not None and _ASCEND_DEVICE.match(device):
        return "accelerators", {"kind": "npu"}
    if vendor == NVIDIA and code == NVSWITCH_CLASS:
        return "nvswitches", {}
    if code is not None and code.startswith("02"):
        return "network", {}
    return None, {}


def _device(host: Host, address: str) -> dict[str, Any]:
    folder = f"{DEVICES_FOLDER}/{address}"
    node = whole_number(host.line(f"{folder}/numa_node"))
    return {
        "address": address,
        "vendor": _id(host, folder, "vendor"),
        "device": _id(host, folder, "device"),
        "subsystem_vendor": _id(host, folder, "subsystem_vendor"),
        "subsystem_device": _id(host, folder, "subsystem_device"),
        "class": _class(host, folder),
        "revision": _hexadecimal(host.line(f"{folder}/revision")),
        # -1 is the kernel's word for: the firmware does not say.
        "numa_node": None if node is None or node < 0 else node,
        "driver": host.link_name(f"{folder}/driver"),
        "link_width": parse_width(host.line(f"{folder}/current_link_width")),
        "link_width_max": parse_width(host.line(f"{folder}/max_link_width")),
        "link_speed_gts": parse_speed(host.line(f"{folder}/current_link_speed")),
        "link_speed_gts_max": parse_speed(host.line(f"{folder}/max_link_speed")),
    }


def _hexadecimal(text: str | None) -> str | None:
    return text[2:].lower() if text is not None and text.startswith("0x") else None


def _id(host: Host, folder: str, name: str) -> str | None:
    return _hexadecimal(host.line(f"{folder}/{name}"))


def _class(host: Host, folder: str) -> str | None:
    # 0x030200: class, subclass, and a programming interface that does not matter here.
    code = _id(host, folder, "class")
    return None if code is None else code[:4]


def parse_width(text: str | None) -> int | None:
    """Return the number of lanes; 0 and 255 (a lost device reads as all ones) are no link."""
    width = whole_number(text)
    return width if width is not None and 0 < width < 255 else None


def parse_speed(text: str | None) -> float | None:
    """Return gigatransfers per second from `16.0 GT/s PCIe`; older kernels print `8 GT/s`, a lost device `Unknown`."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", text or "")
    return float(match.group(1)) if match else None
