"""The process that stays with one lab host: it mounts the host's files, boots it, and boots it again when it reboots.

Started by ``ironlease.lab.host`` as ``unshare ... python3 -m ironlease.lab.keeper TICKET``, in a session of its own, as
process 1 of a process namespace: when it ends, the kernel ends its host. All mounts are made in its private mount
namespace and end with it; the computer's own table never shows them.

The *ticket* is the host's start order, a JSON file. ``lab.down`` removes it before it ends the processes of the lab, so
a keeper that starts late finds no ticket and ends by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from ironlease.lab.cgroups import ControlGroup
from ironlease.lab.mounts import mounted_at_or_below

REBOOT_EXIT_CODE = 133  # systemd-nspawn(1): the payload asked for a reboot
_MOUNT_SECONDS = 30.0


@dataclass(frozen=True)
class Ticket:
    """Everything that a keeper needs to know about its host."""

    machine: str
    hostname: str
    folder: str
    lower: list[str]
    namespace: str
    cgroup_mount: str
    host_cgroup: str
    bind_read_only: list[str]

    @classmethod
    def read(cls, path: Path) -> Ticket:
        """Raises FileNotFoundError when the order was withdrawn."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def as_json(self) -> str:
        """Return the text that ``read`` reads."""
        return json.dumps(asdict(self), indent=2)


def overlay_options(ticket: Ticket) -> str:
    """Return the mount options: the host's own changes over the shared, never written, lower layers."""
    folder = ticket.folder
    return f"lowerdir={':'.join(ticket.lower)},upperdir={folder}/upper,workdir={folder}/work"


def nspawn_command(ticket: Ticket) -> list[str]:
    """Return the command that boots the host."""
    folder = ticket.folder
    return [
        "systemd-nspawn",
        "--quiet",
        "--boot",
        f"--directory={folder}/root",
        # Unique on the computer, because nspawn keeps files under this name; the host itself sees --hostname.
        f"--machine={ticket.machine}",
        f"--hostname={ticket.hostname}",
        # No systemd on the computer is needed, and none is told about the host.
        "--register=no",
        "--keep-unit",
        f"--network-namespace-path={folder}/network",
        # With a namespace that is handed in, nspawn would withhold the host's authority over its own network.
        "--capability=CAP_NET_ADMIN",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--console=pipe",
        *(f"--bind-ro={path.replace(':', chr(92) + ':')}" for path in ticket.bind_read_only),
    ]


def nspawn_environment() -> dict[str, str]:
    """Return the whole environment of nspawn: nothing of the user's reaches the host."""
    return {
        "PATH": os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"),
        "LANG": "C.UTF-8",
        "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
        # /tmp on disk, as on a server: a memory file system a tenth of the RAM in size does not hold a large wheel.
        "SYSTEMD_NSPAWN_TMPFS_TMP": "0",
    }


def main(arguments: list[str]) -> int:
    """Keep the host of the ticket named on the command line until it is switched off."""
    try:
        ticket = Ticket.read(Path(arguments[0]))
    except FileNotFoundError:
        return 0  # `lab.down` came between our start and our entering the group that it ends
    group = ControlGroup(_own_cgroup_tree(Path(ticket.cgroup_mount)), ticket.host_cgroup)
    _mount_all(ticket)
    while _boot(ticket, group) == REBOOT_EXIT_CODE:
        _remove_payload_groups(group)
    group.remove()
    return 0


def _own_cgroup_tree(mount: Path) -> Path:
    """Show the host a plain version 2 tree at /sys/fs/cgroup, also on a computer with the older layout beside it."""
    standard = Path("/sys/fs/cgroup")
    if mount == standard:
        return standard
    for point in mounted_at_or_below(standard):
        _mount("umount", str(point))
    if not standard.is_dir():
        raise FileNotFoundError(standard)
    _mount("mount", "-t", "cgroup2", "none", str(standard))
    return standard


def _mount_all(ticket: Ticket) -> None:
    folder = Path(ticket.folder)
    (folder / "network").touch()
    _mount("mount", "--bind", ticket.namespace, f"{folder}/network")
    # nspawn keeps notes below /run/systemd; they end with this namespace.
    _mount("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run")
    _mount("mount", "-t", "overlay", "-o", overlay_options(ticket), "overlay", f"{folder}/root")


def _mount(*argv: str) -> None:
    subprocess.run(list(argv), stdin=subprocess.DEVNULL, timeout=_MOUNT_SECONDS, check=True)


def _boot(ticket: Ticket, group: ControlGroup) -> int:
    """Run the host until it reboots or is switched off, and return nspawn's exit code."""
    group.create()
    # No time limit: the host decides when it ends.
    code = subprocess.run(
        group.joining(nspawn_command(ticket)), env=nspawn_environment(), stdin=subprocess.DEVNULL, check=False
    ).returncode
    _bury_orphans()
    return code


def _bury_orphans() -> None:
    """Collect what nspawn left behind, as process 1 has to."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _remove_payload_groups(group: ControlGroup) -> None:
    """nspawn makes these groups at each boot and refuses to find them there."""
    for child in group.children():
        child.remove()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
