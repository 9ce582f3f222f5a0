"""Reads APT's sources, one-line and deb822, as sources.list(5) describes them. Credentials in URLs never leave here."""

from __future__ import annotations

import re
from typing import Any

from ironlease_node.host import Host, Unreadable
from ironlease_node.text import without_credentials

SOURCES_LIST = "/etc/apt/sources.list"
SOURCES_PARTS = "/etc/apt/sources.list.d"

_ONE_LINE = re.compile(r"^(?P<type>deb|deb-src)\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<rest>\S.*)$")


def source_files(host: Host) -> list[str]:
    """Return the paths of the files that APT reads, in its order.

    Raises Unreadable.
    """
    parts = [f"{SOURCES_PARTS}/{name}" for name in host.names(SOURCES_PARTS) if name.endswith((".list", ".sources"))]
    return [path for path in (SOURCES_LIST, *parts) if host.path(path).is_file()]


def read(host: Host) -> list[dict[str, Any]]:
    """Return every source of every file.

    Raises Unreadable.
    """
    sources = []
    for path in source_files(host):
        text = host.text(path)
        sources += parse_deb822(path, text) if path.endswith(".sources") else parse_one_line(path, text)
    return sources


def parse_one_line(path: str, text: str) -> list[dict[str, Any]]:
    """Parse `deb [options] uri suite component...`. Lines that are commented out are not sources."""
    sources = []
    for line in text.splitlines():
        match = _ONE_LINE.match(line.strip())
        if match is None:
            continue
        words = match.group("rest").split("#", 1)[0].split()
        if len(words) < 2:
            raise Unreadable(f"{path}: a source without a suite: {without_credentials(line.strip())[:200]}")
        options = dict(option.partition("=")[::2] for option in (match.group("options") or "").split())
        sources.append(
            _source(
                path=path,
                format="one-line",
                types=[match.group("type")],
                uris=[words[0]],
                suites=[words[1]],
                components=words[2:],
                architectures=[part for part in options.get("arch", "").split(",") if part],
                signed_by=options.get("signed-by") or None,
                trusted=_yes(options.get("trusted", "")),
                enabled=True,
            )
        )
    return sources


def parse_deb822(path: str, text: str) -> list[dict[str, Any]]:
    """Parse stanzas of `Types: deb`, `URIs:` and so on."""
    sources = []
    for stanza in _stanzas(text):
        if "types" not in stanza:
            continue
        signed_by = stanza.get("signed-by", "").strip()
        sources.append(
            _source(
                path=path,
                format="deb822",
                types=stanza["types"].split(),
                uris=stanza.get("uris", "").split(),
                suites=stanza.get("suites", "").split(),
                components=stanza.get("components", "").split(),
                architectures=stanza.get("architectures", "").split(),
                signed_by="embedded key" if "BEGIN PGP" in signed_by else signed_by or None,
                trusted=_yes(stanza.get("trusted", "")),
                enabled=not _no(stanza.get("enabled", "")),
            )
        )
    return sources


def _source(*, path: str, uris: list[str], **fields: Any) -> dict[str, Any]:
    clean = [without_credentials(uri) for uri in uris]
    return {"file": path, "uris": clean, "credentials_removed": clean != uris, **fields}


def _yes(word: str) -> bool:
    # The words that APT's StringToBool takes.
    return word.strip().lower() in {"yes", "true", "with", "on", "enable", "1"}


def _no(word: str) -> bool:
    return word.strip().lower() in {"no", "false", "without", "off", "disable", "0"}


def _stanzas(text: str) -> list[dict[str, str]]:
    stanzas: list[dict[str, str]] = [{}]
    key = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.strip():
            stanzas.append({})
            key = ""
        elif line[0] in " \t" and key:
            stanzas[-1][key] += "\n" + line.strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            stanzas[-1][key] = value.strip()
    return stanzas
