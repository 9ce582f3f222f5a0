"""What a lab host takes over from this computer, so that it can install from wherever the computer can.

Package sources with their keys, how to fetch (proxies, time limits, certificate checks), pip's indexes and folders,
extra certificate authorities, and the resolvers. Never a secret: what holds a password or a private key is left out,
and a note says so.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ironlease.lab.apt_config import AptInheritance
from ironlease.lab.credentials import has_credentials
from ironlease.lab.network import UPLINK_RESOLVER
from ironlease.lab.pip_config import PipInheritance
from ironlease.lab.processes import run

_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n?", re.DOTALL)
_WEB_PORTS = frozenset({80, 443})
# A folder this high up holds the whole computer: it is not a folder of packages.
_NEVER_BOUND = frozenset({"", "boot", "dev", "etc", "home", "proc", "root", "run", "srv", "sys", "tmp", "usr", "var"})


@dataclass(frozen=True)
class Inheritance:
    """Content for the base (``apt``, ``certificates``) and for each host.

    ``host_files`` maps an absolute path inside the host to the content of the file; the folders ``bind_read_only`` of
    this computer show there at the same path; ``web_ports`` are those that the package sources use.
    """

    apt: AptInheritance
    certificates: list[str]
    host_files: dict[str, str]
    bind_read_only: list[str]
    web_ports: frozenset[int]
    notes: list[str]


def read_inheritance() -> Inheritance:
    """Read this computer's configuration. Raises LabError where apt's own cannot be read."""
    return inheritance_of(os.environ, Path("/"), run(["apt-config", "dump", "Acquire"]))


def inheritance_of(environment: Mapping[str, str], root: Path, apt_options: str) -> Inheritance:
    """Return what the computer whose files lie below ``root`` hands on."""
    notes: list[str] = []
    proxies = web_proxies(environment, notes)
    apt = AptInheritance.read(root, apt_options, proxies, notes)
    pip = PipInheritance.read(environment, root, proxies, notes)
    resolvers = (root / "etc/resolv.conf").read_text(encoding="utf-8", errors="replace")
    return Inheritance(
        apt=apt,
        certificates=extra_certificates(root),
        host_files={"/etc/resolv.conf": resolver_file(resolvers), **pip.files},
        bind_read_only=_without_system_folders({*apt.folders, *pip.folders}, notes),
        web_ports=_WEB_PORTS | ports_in("\n".join([*apt.source_texts, *apt.options, *pip.files.values()])),
        notes=notes,
    )


def web_proxies(environment: Mapping[str, str], notes: list[str]) -> dict[str, str]:
    """Return the proxy for ``http`` and for ``https``, where the environment names one that a lab host can use."""
    proxies = {}
    for scheme in ("http", "https"):
        # Programs disagree about which spelling wins; on a computer where both are set they agree.
        url = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY") or ""
        if has_credentials(url):
            notes.append(f"{scheme}_proxy holds a password; lab hosts do not get it")
        elif _is_local(urlsplit(url).hostname or ""):
            notes.append(f"{scheme}_proxy listens on this computer alone; lab hosts cannot reach it and do not get it")
        elif url:
            proxies[scheme] = url
    return proxies


def ports_in(text: str) -> frozenset[int]:
    """Return the port numbers that the web addresses in ``text`` name."""
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
            servers.append(words[1] if _is_reachable_ipv4(words[1]) else UPLINK_RESOLVER)
        elif words and words[0] in {"search", "domain", "options"}:
            rest.append(line)
    unique = list(dict.fromkeys(servers or [UPLINK_RESOLVER]))
    return "\n".join([*rest, *(f"nameserver {server}" for server in unique)]) + "\n"


def extra_certificates(root: Path) -> list[str]:
    """Return the certificate authorities that this computer trusts beyond Debian's own, each as PEM text."""
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    if not bundle.is_file():
        return []
    stock = {
        "".join(pem.split())
        for path in (root / "usr/share/ca-certificates").rglob("*.crt")
        for pem in _CERTIFICATE.findall(path.read_text(encoding="ascii", errors="replace"))
    }
    trusted = _CERTIFICATE.findall(bundle.read_text(encoding="utf-8", errors="replace"))
    return sorted({pem for pem in trusted if "".join(pem.split()) not in stock})


def _without_system_folders(folders: set[str], notes: list[str]) -> list[str]:
    refused = {folder for folder in folders if folder.strip("/") in _NEVER_BOUND}
    notes.extend(
        f"the package folder {folder} is too much of this computer; lab hosts do not get it" for folder in refused
    )
    return sorted(folders - refused)


def _is_reachable_ipv4(server: str) -> bool:
    try:
        return not ipaddress.IPv4Address(server).is_loopback
    except ValueError:
        return False  # IPv6, which the lab's network does not have


def _is_local(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"
