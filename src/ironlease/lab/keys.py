"""The SSH keys of the lab: one to log in with, and one that every lab host shows.

Both belong to the computer, not to a checkout or an instance, and lie beside the cached bases. So the inventory can
name plain paths, and a lab host has the same key after every reset, which is what makes it known from the start.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ironlease.files import private_folder, write_atomically
from ironlease.lab.instance import CACHE_ROOT
from ironlease.lab.network import SUBNET
from ironlease.lab.processes import run

LOGIN_KEY = CACHE_ROOT / "login_ed25519"
HOST_KEY = CACHE_ROOT / "host_ed25519"
KNOWN_HOSTS = CACHE_ROOT / "known_hosts"


@dataclass(frozen=True)
class LabKeys:
    """The public halves, as lines for OpenSSH's files."""

    login_public: str
    host_public: str


def ensure_keys() -> LabKeys:
    """Make the keys that are not there yet, and the known-hosts file for plain OpenSSH and Ansible."""
    CACHE_ROOT.mkdir(parents=True, exist_ok=True)
    login = _ensure_pair(LOGIN_KEY, "ironlease lab login")
    host = _ensure_pair(HOST_KEY, "ironlease lab host")
    pattern = str(SUBNET.network_address).removesuffix("0") + "*"
    write_atomically(KNOWN_HOSTS, f"{pattern} {host}\n", mode=0o644)
    return LabKeys(login_public=login, host_public=host)


def known_host_key() -> str | None:
    """Return the public key that lab hosts show, or None where none was made yet. Needs no rights."""
    try:
        return KNOWN_HOSTS.read_text(encoding="ascii").split(maxsplit=1)[1].strip()
    except FileNotFoundError:
        return None


def _ensure_pair(private: Path, comment: str) -> str:
    """Return the public key; several processes may call this at once and get the same one."""
    if not private.exists():
        folder = private_folder(CACHE_ROOT / f".new-{private.name}-{os.getpid()}")
        fresh = folder / "key"
        run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(fresh)])
        try:
            # A link, unlike a rename, refuses to replace the key that another process has just put there.
            private.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            for name in ("key", "key.pub"):
                (folder / name).unlink(missing_ok=True)
            folder.rmdir()
    # Derived each time, so that a pair cannot fall apart.
    return run(["ssh-keygen", "-y", "-P", "", "-f", str(private)]).strip()
