"""The names and places of one lab.

Everything that a lab makes is found again through these names alone, so that taking it down never depends on a
record that a killed process did not get to write.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ironlease.errors import UsageError

RUN_ROOT = Path("/run/ironlease/lab")
DATA_ROOT = Path("/var/lib/ironlease/lab")
CACHE_ROOT = Path("/var/cache/ironlease/lab")

# The name is part of the path of a UNIX socket (108 bytes) and of a machine name (64 characters).
_VALID_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?")


@dataclass(frozen=True)
class Instance:
    """One lab on this computer; several may run side by side, each with the same host names and addresses."""

    name: str

    def __post_init__(self) -> None:
        if not _VALID_NAME.fullmatch(self.name):
            raise UsageError(
                code="lab-instance-name",
                found=f"IRONLEASE_LAB is {self.name!r}.",
                needed="A name of 1 to 20 small letters, digits and dashes.",
                next_step="export IRONLEASE_LAB=my-lab",
            )

    @classmethod
    def of_checkout(cls, root: Path) -> Instance:
        """Return the lab that ``IRONLEASE_LAB`` names, else the one that belongs to the checkout at ``root``.

        inventories/lab/hosts.yml derives the same name for plain ansible-playbook; a test compares the two.
        """
        return cls(os.environ.get("IRONLEASE_LAB") or default_name(root))

    @property
    def run_dir(self) -> Path:
        """What exists only while the lab runs: network namespaces, boot tickets, logs, SSH control sockets."""
        return RUN_ROOT / self.name

    @property
    def data_dir(self) -> Path:
        """The hosts' own files: what each wrote on top of the shared base."""
        return DATA_ROOT / self.name

    @property
    def lock_file(self) -> Path:
        """Held while hosts of this lab are being started or stopped; outside the folders that ``down`` removes."""
        return RUN_ROOT / f"{self.name}.lock"

    @property
    def namespace(self) -> Path:
        """The network namespace with the bridge, from which every connection to a host starts."""
        return self.run_dir / "net" / "lab"

    @property
    def ssh_sockets(self) -> Path:
        """Where the lab inventory has OpenSSH put the sockets of its shared connections."""
        return self.run_dir / "ssh"

    def host_namespace(self, host: str) -> Path:
        """Return the network namespace of one host."""
        return self.run_dir / "net" / f"host-{host}"

    def host_run_dir(self, host: str) -> Path:
        """Return the folder of one running host's ticket and logs."""
        return self.run_dir / "hosts" / host

    def host_data_dir(self, host: str) -> Path:
        """Return the folder of one host's overlay."""
        return self.data_dir / "hosts" / host

    def machine_name(self, host: str) -> str:
        """Return the name of one host that is unique on this computer, for systemd-nspawn."""
        return f"ironlease-{self.name}-{host}"


def default_name(root: Path) -> str:
    """Return the instance name of the checkout at ``root``: two checkouts never share a lab."""
    return hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:10]
