"""What a computer must have to run lab hosts, found out before anything is changed."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ironlease.lab.errors import LabUnavailableError, MissingToolsError
from ironlease.lab.instance import DATA_ROOT
from ironlease.lab.processes import tool_path

# The program, and the Debian package that holds it.
REQUIRED_PACKAGES = {
    "apt-config": "apt",
    "mmdebstrap": "mmdebstrap",
    "systemd-nspawn": "systemd-container",
    "slirp4netns": "slirp4netns",
    "ip": "iproute2",
    "nft": "nftables",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "setsid": "util-linux",
    "mount": "mount",
}


MOUNTS = Path("/proc/self/mountinfo")

# What takes a lab down has to work even when what builds it has been uninstalled.
_TOOLS_TO_END = frozenset({"ip", "nft", "nsenter", "mount"})


def check(*, only_to_end: bool = False) -> None:
    """Raise LabUnavailableError when this computer cannot run the lab, or ``only_to_end``, take it down."""
    if sys.platform != "linux":
        raise LabUnavailableError(
            code="lab-not-linux",
            found=f"This computer runs {sys.platform}.",
            needed="Linux, because lab hosts share the computer's kernel; or a real host.",
            next_step="invoke init",
        )
    if os.geteuid() != 0:
        raise LabUnavailableError(
            code="lab-not-root",
            found=f"The command runs as user {os.geteuid()}.",
            needed="Root, because lab hosts have network namespaces and mounts of their own;"
            " or a privileged container (docker run --privileged); or a real host (invoke init).",
            next_step="Run the same command again with sudo.",
        )
    if not only_to_end and _file_system_of(DATA_ROOT) == "overlay":
        raise LabUnavailableError(
            code="lab-on-overlay",
            found=f"{DATA_ROOT.parent} lies on an overlay file system, as everything in a container does.",
            needed="An ordinary file system there: the kernel does not let an overlay write into another.",
            next_step=f"Give the container a volume at {DATA_ROOT.parent}, or here: "
            f"mkdir -p {DATA_ROOT.parent} && mount -t tmpfs tmpfs {DATA_ROOT.parent}",
        )
    missing = missing_tools()
    if only_to_end:
        missing = [tool for tool in missing if tool in _TOOLS_TO_END]
    if missing:
        raise MissingToolsError(missing, sorted({REQUIRED_PACKAGES[tool] for tool in missing}))


def missing_tools() -> list[str]:
    """Return the programs that are not installed."""
    return [tool for tool in REQUIRED_PACKAGES if shutil.which(tool, path=tool_path()) is None]


def _file_system_of(path: Path) -> str:
    """Return the type of the file system that ``path`` lies on, or would (proc(5), mountinfo)."""
    above = {str(path), *map(str, path.parents)}
    # The last of several mounts on one place is the one that is seen.
    kinds: dict[str, str] = {}
    for line in MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        fields, _, rest = line.partition(" - ")
        place = fields.split()[4]
        if place in above:
            kinds[place] = rest.split()[0]
    return kinds[max(kinds, key=len)] if kinds else "unknown"
