"""What is loaded into the kernel, and what it would permit. Nothing is tried: everything is read."""

from __future__ import annotations

import os
import re
from typing import Any

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.sources import Sources

MODULES = ("ib_core", "mlx5_core", "mlx5_ib", "nouveau", "nvidia", "nvidia_peermem", "nvidia_uvm")

SECURE_BOOT_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

# One harmless parameter of each kind whose file shows whether the kind can be written.
SYSCTL_FILES = {
    "fs": "/proc/sys/fs/file-max",
    "kernel": "/proc/sys/kernel/numa_balancing",
    "net": "/proc/sys/net/core/somaxconn",
    "vm": "/proc/sys/vm/swappiness",
}
# Kernels built without NUMA balancing have no such file; this one is always there.
SYSCTL_FALLBACK = {"kernel": "/proc/sys/kernel/pid_max"}

# Bit numbers from the kernel's include/uapi/linux/capability.h.
CAP_SYS_MODULE = 16
CAP_SYS_RESOURCE = 24
CAP_SYS_TIME = 25


def read_modules(sources: Sources) -> dict[str, bool]:
    """Return which of the modules of interest are loaded or built in."""
    if not sources.host.path("/sys/module").is_dir():
        raise Unreadable("/sys/module: not there")
    return {name: sources.host.path(f"/sys/module/{name}").is_dir() for name in MODULES}


def read_nvidia_driver(sources: Sources) -> dict[str, Any]:
    """Return the version and flavour of the NVIDIA kernel driver that is loaded."""
    return nvidia_driver(sources.host)


def nvidia_driver(host: Host) -> dict[str, Any]:
    """Return the loaded driver. The version is what the kernel runs, whatever packages are installed.

    Raises Unreadable.
    """
    text = host.optional_text("/proc/driver/nvidia/version")
    loaded = text is not None or host.path("/sys/module/nvidia").is_dir()
    version, flavour = parse_driver_version(text or "")
    version = version or host.line("/sys/module/nvidia/version")
    if loaded and version is None:
        raise Unreadable("the nvidia module is loaded, and neither /proc nor /sys names its version")
    return {"loaded": loaded, "version": version, "flavour": flavour}


def parse_driver_version(text: str) -> tuple[str | None, str | None]:
    """Return version and flavour from /proc/driver/nvidia/version.

    `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ...`, or without `Open` and `for`
    for the proprietary one.
    """
    match = re.search(r"^NVRM version:\s+(.*?)\s+(\d+\.\d+(?:\.\d+)?)\s", text, re.MULTILINE)
    if match is None:
        return None, None
    return match.group(2), "open" if "Open Kernel Module" in match.group(1) else "proprietary"


def read_secure_boot(sources: Sources) -> str:
    """Return whether the firmware lets only signed modules be loaded."""
    if not sources.host.path("/sys/firmware/efi").is_dir():
        return "no-efi"
    try:
        data = sources.host.path(SECURE_BOOT_VARIABLE).read_bytes()
    except FileNotFoundError:
        # Firmware without Secure Boot has no such variable; without efivarfs nobody knows.
        if sources.host.names("/sys/firmware/efi/efivars"):
            return "disabled"
        raise Unreadable("/sys/firmware/efi/efivars: not mounted") from None
    except OSError as error:
        raise Unreadable(f"SecureBoot variable: {error.strerror}") from error
    # Four bytes of attributes, then the value.
    return "enabled" if data[4:5] == b"\x01" else "disabled"


def read_permits(sources: Sources) -> dict[str, Any]:
    """Return what root could do here, in a container or a locked-down kernel less than on metal."""
    host = sources.host
    bounding_set = parse_bounding_set(host.text("/proc/self/status"))
    modules = host.path("/proc/modules").is_file() and host.line("/proc/sys/kernel/modules_disabled") == "0"
    return {
        "sysctl": {kind: _can_write(host, kind) for kind in SYSCTL_FILES},
        "raise_limits": bool(bounding_set >> CAP_SYS_RESOURCE & 1),
        "set_clock": bool(bounding_set >> CAP_SYS_TIME & 1),
        "load_modules": modules and bool(bounding_set >> CAP_SYS_MODULE & 1),
    }


def parse_bounding_set(status: str) -> int:
    """Return the capability bounding set of /proc/self/status: what not even a setuid program can exceed.

    Raises Unreadable.
    """
    match = re.search(r"^CapBnd:\s*([0-9a-f]+)$", status, re.MULTILINE)
    if match is None:
        raise Unreadable("/proc/self/status: no CapBnd")
    return int(match.group(1), 16)


def _can_write(host: Host, kind: str) -> bool | None:
    path = SYSCTL_FILES[kind]
    if not host.path(path).is_file():
        path = SYSCTL_FALLBACK.get(kind, path)
    if host.is_root:
        # access() asks the kernel, mount flags and user namespaces included.
        return os.access(host.path(path), os.W_OK)
    try:
        # Another user cannot ask for root; a read-only mount over /proc/sys is what forbids it to root.
        return not os.statvfs(host.path(path)).f_flag & os.ST_RDONLY
    except OSError:
        return None
