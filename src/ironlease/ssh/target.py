"""Who is spoken to: a host's address and options, and the keys that it may show."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Target:
    """How one host is reached.

    ``options`` holds OpenSSH options by their names in lower case (``proxycommand``, ``proxyusefdpass``), see
    :func:`ironlease.ssh.options.parse`.
    """

    name: str
    address: str
    port: int = 22
    user: str = "root"
    keys: tuple[Path, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    @property
    def known_hosts_name(self) -> str:
        """The name under which OpenSSH looks the host up in known_hosts."""
        return self.address if self.port == 22 else f"[{self.address}]:{self.port}"


@dataclass(frozen=True)
class HostKey:
    """A public host key."""

    kind: str
    base64: str

    @classmethod
    def parse(cls, line: str) -> HostKey:
        """Read the ``ssh-ed25519 AAAA... comment`` form; raise ValueError when it is not one."""
        parts = line.split()
        if len(parts) < 2:
            raise ValueError(f"not a public key: {line!r}")
        return cls(parts[0], parts[1])

    @property
    def fingerprint(self) -> str:
        """The fingerprint as ``ssh-keygen -l`` prints it: ``SHA256:`` and unpadded base64."""
        digest = hashlib.sha256(base64.b64decode(self.base64)).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")
