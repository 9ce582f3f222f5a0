"""File systems with their room, and block devices with what is on them."""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.sources import Sources
from ironlease_node.text import whole_number
from ironlease_node.tools import OK, Command

LSBLK_COLUMNS = "NAME,PATH,TYPE,SIZE,ROTA,MODEL,TRAN,RO,FSTYPE,MOUNTPOINT"
COMMANDS = {"disks": Command(["lsblk", "--json", "--bytes", "--output", LSBLK_COLUMNS])}

LOCAL_TYPES = {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "vfat", "xfs", "zfs"}
# A dead server makes every call on these hang, so that only a child with a time limit may ask.
NETWORK_TYPES = {"9p", "beegfs", "ceph", "cifs", "glusterfs", "gpfs", "lustre", "nfs", "nfs4", "smb3", "virtiofs"}
# These are measured and reported; nothing is written there.
SHARED_MEMORY = "/dev/shm"  # noqa: S108
TMPFS_PLACES = {SHARED_MEMORY, "/tmp", "/var/tmp"}  # noqa: S108
NETWORK_TIMEOUT_SECONDS = 5.0
# Where provisioning writes much: the environments, and what apt downloads.
OUR_PLACES = ("/opt/ironlease/envs", "/var/cache/apt/archives")

# `lsblk` types that are no disk of their own, and disks that are memory.
_NO_DISK_TYPES = {"loop", "rom"}
_MEMORY_DISK = re.compile(r"^(zram|ram|nbd)\d+$")
SECTOR_BYTES = 512


class Mount(NamedTuple):
    """A line of /proc/self/mounts."""

    source: str
    path: str
    type: str
    read_only: bool

    @property
    def network(self) -> bool:
        """Whether another machine has to answer for it."""
        return self.type in NETWORK_TYPES or self.type.startswith("fuse.")


def parse_mounts(text: str) -> list[Mount]:
    """Return the file systems that hold data, and those that we write to whatever they are, sorted by path.

    Of several on one path, the topmost counts.
    """
    mounts = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        path = _unescape(words[1])
        mounts[path] = Mount(_unescape(words[0]), path, words[2], "ro" in words[3].split(","))
    ours = {max((path for path in mounts if _contains(path, place)), key=len, default=None) for place in OUR_PLACES}
    return [mount for path, mount in sorted(mounts.items()) if path in ours or _holds_data(mount)]


def _contains(path: str, place: str) -> bool:
    return place == path or place.startswith(path.rstrip("/") + "/")


def _holds_data(mount: Mount) -> bool:
    if mount.type == "tmpfs":
        return mount.path in TMPFS_PLACES or mount.path == "/"
    if mount.type == "overlay":
        # The root of a container or a live system; the others belong to container engines.
        return mount.path == "/"
    return mount.type in LOCAL_TYPES or mount.network


def _unescape(word: str) -> str:
    """Undo the kernel's octal escapes for space, tab, newline and backslash."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), word)


def network_commands(host: Host) -> dict[str, Command]:
    """Return a question for each network file system."""
    return {
        f"filesystem:{mount.path}": Command(
            ["stat", "--file-system", "--format", "%S %b %a", str(host.path(mount.path))], NETWORK_TIMEOUT_SECONDS
        )
        for mount in parse_mounts(host.optional_text("/proc/self/mounts") or "")
        if mount.network
    }


def read_mounts(sources: Sources) -> list[dict[str, Any]]:
    """Return each file system with its room."""
    return [_with_room(sources, mount) for mount in parse_mounts(sources.host.text("/proc/self/mounts"))]


def _with_room(sources: Sources, mount: Mount) -> dict[str, Any]:
    size_bytes = available_bytes = None
    try:
        size_bytes, available_bytes = _room(sources, mount)
    except (OSError, Unreadable) as error:
        sources.problems.add(f"mounts.{mount.path}", error)
    return {
        **mount._asdict(),
        "network": mount.network,
        "size_bytes": size_bytes,
        "available_bytes": available_bytes,
    }


def _room(sources: Sources, mount: Mount) -> tuple[int, int]:
    if mount.network:
        words = sources.answer_of(f"filesystem:{mount.path}").split()
        if len(words) != 3:
            raise Unreadable("stat: not three numbers")
        block_bytes, blocks, available = (int(word) for word in words)
        return blocks * block_bytes, available * block_bytes
    status = os.statvfs(sources.host.path(mount.path))
    return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize


def read_shared_memory(sources: Sources) -> dict[str, int]:
    """Return the room in /dev/shm, through which data loaders and NCCL pass their data."""
    try:
        status = os.statvfs(sources.host.path(SHARED_MEMORY))
    except OSError as error:
        raise Unreadable(f"{SHARED_MEMORY}: {error.strerror}") from error
    return {
        "size_bytes": status.f_blocks * status.f_frsize,
        "available_bytes": status.f_bavail * status.f_frsize,
    }


def read_block_devices(sources: Sources) -> list[dict[str, Any]]:
    """Return disks and arrays, from lsblk or, where there is none, from the kernel alone."""
    outcome = sources.outcomes["disks"]
    if outcome.status == OK:
        # Without udev's database only root can look for signatures on a device itself.
        sees_signatures = sources.host.is_root or sources.host.path("/run/udev/data").is_dir()
        return parse_lsblk(outcome.stdout, sees_signatures=sees_signatures)
    sources.problems.add("block_devices.file_systems", outcome.reason)
    return _from_sysfs(sources.host)


def parse_lsblk(text: str, *, sees_signatures: bool) -> list[dict[str, Any]]:
    """Parse lsblk's JSON. Before version 2.33 its numbers and booleans are strings.

    Raises Unreadable.
    """
    try:
        devices = json.loads(text)["blockdevices"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unreadable(f"lsblk: not the JSON that was asked for: {error!r}") from error
    return [_from_lsblk(device, sees_signatures) for device in devices if _is_disk(device["name"], device["type"])]


def _is_disk(name: str, kind: str) -> bool:
    return kind not in _NO_DISK_TYPES and not _MEMORY_DISK.match(name)


def _from_lsblk(device: dict[str, Any], sees_signatures: bool) -> dict[str, Any]:
    family = _with_descendants(device)
    file_systems = sorted({member["fstype"] for member in family if member.get("fstype")})
    mount_points = sorted({member["mountpoint"] for member in family if member.get("mountpoint")})
    occupied = bool(file_systems or mount_points or len(family) > 1)
    return {
        "name": device["name"],
        "path": device.get("path") or f"/dev/{device['name']}",
        "type": device["type"],
        "size_bytes": whole_number(str(device["size"])),
        "rotational": _truth(device.get("rota")),
        "model": (device.get("model") or "").strip() or None,
        "transport": device.get("tran"),
        "read_only": _truth(device.get("ro")),
        "mount_points": mount_points,
        "file_systems": file_systems,
        "partitions": sum(1 for member in family if member["type"] == "part"),
        "empty": False if occupied else True if sees_signatures else None,
    }


def _with_descendants(device: dict[str, Any]) -> list[dict[str, Any]]:
    family = [device]
    for child in device.get("children") or []:
        family += _with_descendants(child)
    return family


def _truth(value: Any) -> bool | None:
    return {True: True, "1": True, "true": True, False: False, "0": False, "false": False}.get(value)


def _from_sysfs(host: Host) -> list[dict[str, Any]]:
    mounts = {mount.source: mount.path for mount in parse_mounts(host.optional_text("/proc/self/mounts") or "")}
    devices = []
    for name in host.names("/sys/block"):
        folder = f"/sys/block/{name}"
        sectors = whole_number(host.line(f"{folder}/size"))
        if not _is_disk(name, "loop" if name.startswith("loop") else "rom" if name.startswith("sr") else "disk"):
            continue
        partitions = [entry for entry in host.names(folder) if host.path(f"{folder}/{entry}/partition").is_file()]
        mount_points = sorted(mounts[f"/dev/{entry}"] for entry in [name, *partitions] if f"/dev/{entry}" in mounts)
        occupied = bool(partitions or mount_points or host.names(f"{folder}/holders"))
        rotational = host.line(f"{folder}/queue/rotational")
        devices.append(
            {
                "name": name,
                "path": f"/dev/{name}",
                "type": "disk",
                "size_bytes": None if sectors is None else sectors * SECTOR_BYTES,
                "rotational": _truth(rotational),
                "model": host.line(f"{folder}/device/model"),
                "transport": None,
                "read_only": _truth(host.line(f"{folder}/ro")),
                "mount_points": mount_points,
                "file_systems": None,
                "partitions": len(partitions),
                "empty": False if occupied else None,
            }
        )
    return devices
