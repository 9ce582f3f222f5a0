"""What a lab host takes over from this computer, so that it can install from wherever the computer can.

Package sources with their keys, how to fetch (proxies, time limits, certificate checks), pip's indexes and folders,
extra certificate authorities, and the resolvers. Never a secret: what holds a password or a private key is left out,
and a note says so.
"""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ironlease.lab.network import UPLINK_RESOLVER
from ironlease.lab.pip_config import PipInheritance

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_CREDENTIALS = re.compile(r"://[^/\s@\"']+@")
_WEB_PORTS = frozenset({80, 443})
_APT_CONFIG_SECONDS = 20.0
_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Inheritance:
    """Files for the base (``apt_files``, ``certificates``) and for each host (``host_files``, ``bind_read_only``).

    The dictionaries map an absolute path inside the host to the content of the file.
    """

    apt_files: dict[str, bytes]
    apt_options: list[str]
    certificates: list[str]
    host_files: dict[str, str]
    bind_read_only: list[str]
    web_ports: frozenset[int]
    notes: list[str] = field(default_factory=list)


def has_credentials(text: str) -> bool:
    """Return whether ``text`` holds a URL with a user name or password in it."""
    return bool(_CREDENTIALS.search(text))


def read_inheritance(environment: Mapping[str, str] | None = None, root: Path = Path("/")) -> Inheritance:
    """Read this computer's configuration; ``root`` is another folder in tests."""
    environment = os.environ if environment is None else environment
    notes: list[str] = []
    apt_files = _apt_files(root, notes)
    options = _apt_options(_apt_config_dump(), environment, notes)
    pip = PipInheritance.read(environment, root, notes)
    certificates = extra_certificates(root)
    files = {"/etc/resolv.conf": resolver_file((root / "etc/resolv.conf").read_text(encoding="utf-8")), **pip.files}
    sources = [content.decode(errors="replace") for path, content in apt_files.items() if "sources" in path]
    ports = ports_in("\n".join([*sources, *options, *pip.files.values()]))
    local = [path for text in sources for path in re.findall(r"(?:file|copy):(?://)?(/\S+)", text)]
    return Inheritance(
        apt_files=apt_files,
        apt_options=options,
        certificates=certificates,
        host_files=files,
        bind_read_only=sorted({*pip.folders, *(path for path in local if (root / path[1:]).is_dir())}),
        web_ports=_WEB_PORTS | ports,
        notes=notes,
    )


def ports_in(text: str) -> frozenset[int]:
    """Return the port numbers that the URLs in ``text`` name."""
    ports = set()
    for url in re.findall(r"https?://[^\s\"';]+", text):
        try:
            port = urlsplit(url).port
        except ValueError:
            continue  # apt or pip will say what is wrong with it
        if port:
            ports.add(port)
    return frozenset(ports)


def resolver_file(text: str) -> str:
    """Return the host's resolv.conf: the computer's, save for resolvers that only the computer itself can reach."""
    servers, rest = [], []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == "nameserver":
            servers.append(UPLINK_RESOLVER if _is_local_or_ipv6(words[1]) else words[1])
        elif words and words[0] in {"search", "domain", "options"}:
            rest.append(line)
    unique = list(dict.fromkeys(servers or [UPLINK_RESOLVER]))
    return "\n".join([*rest, *(f"nameserver {server}" for server in unique)]) + "\n"


def extra_certificates(root: Path) -> list[str]:
    """Return the certificate authorities that this computer trusts beyond Debian's own, each as PEM text."""
    bundle = root / _BUNDLE.relative_to("/")
    if not bundle.is_file():
        return []
    stock = {
        _canonical(pem)
        for path in (root / "usr/share/ca-certificates").rglob("*.crt")
        for pem in _CERTIFICATE.findall(path.read_text(encoding="ascii", errors="replace"))
    }
    trusted = _CERTIFICATE.findall(bundle.read_text(encoding="utf-8", errors="replace"))
    return sorted({pem for pem in trusted if _canonical(pem) not in stock})


def _canonical(pem: str) -> str:
    return "".join(pem.split())


def _is_local_or_ipv6(server: str) -> bool:
    try:
        address = ipaddress.ip_address(server.partition("%")[0])
    except ValueError:
        return True
    return address.version != 4 or address.is_loopback


def _apt_files(root: Path, notes: list[str]) -> dict[str, bytes]:
    """Sources, preferences and keys. ``auth.conf`` is not among them: it holds passwords."""
    patterns = [
        "etc/apt/sources.list",
        "etc/apt/sources.list.d/*.list",
        "etc/apt/sources.list.d/*.sources",
        "etc/apt/preferences",
        "etc/apt/preferences.d/*",
        "etc/apt/trusted.gpg",
        "etc/apt/trusted.gpg.d/*",
        "etc/apt/keyrings/*",
    ]
    files: dict[str, bytes] = {}
    for path in (path for pattern in patterns for path in sorted(root.glob(pattern)) if path.is_file()):
        content = path.read_bytes()
        name = f"/{path.relative_to(root)}"
        if has_credentials(content.decode(errors="replace")):
            notes.append(f"{name} holds a URL with credentials; lab hosts do not get this file")
            continue
        files[name] = content
    for content in list(files.values()):
        for name in re.findall(r"(?im)^\s*signed-by:\s*(/\S+)", content.decode(errors="replace")) + re.findall(
            r"signed-by=(/[^\s\]]+)", content.decode(errors="replace")
        ):
            key = root / name[1:]
            if key.is_file():
                files[name] = key.read_bytes()
    return files


def _apt_config_dump() -> str:
    done = subprocess.run(
        ["apt-config", "dump", "Acquire"], capture_output=True, text=True, timeout=_APT_CONFIG_SECONDS, check=True
    )
    return done.stdout


def _apt_options(dump: str, environment: Mapping[str, str], notes: list[str]) -> list[str]:
    """Return how apt fetches, as lines for apt.conf.

    Only ``Acquire``: the rest of a computer's apt.conf are hooks that call programs which a fresh host does not have.
    """
    lines = []
    for line in dump.splitlines():
        name = line.partition(" ")[0]
        if has_credentials(line) or name.endswith("::SslKey"):
            notes.append(f"apt's {name} holds a secret; lab hosts do not get it")
        elif not line.endswith(' "";') or name.endswith("::"):
            lines.append(line)
    for scheme in ("http", "https"):
        proxy = environment.get(f"{scheme}_proxy", "")
        if proxy and has_credentials(proxy):
            notes.append(f"{scheme}_proxy holds credentials; lab hosts do not get it")
        elif proxy:
            lines.append(f'Acquire::{scheme}::Proxy "{proxy}";')
    return lines
