"""Where this computer's apt takes packages from, and how it fetches them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ironlease.lab.credentials import has_credentials

_FILES = (
    "etc/apt/sources.list",
    "etc/apt/sources.list.d/*.list",
    "etc/apt/sources.list.d/*.sources",
    "etc/apt/preferences",
    "etc/apt/preferences.d/*",
    "etc/apt/trusted.gpg",
    "etc/apt/trusted.gpg.d/*",
    "etc/apt/keyrings/*",
)
_SIGNED_BY = re.compile(r"(?im)^\s*signed-by:\s*(/\S+)|signed-by=(/[^\s\]]+)")
_LOCAL_SOURCE = re.compile(r"(?:file|copy):(?://)?(/[^\s\]]+)")
# apt's own lists of what an archive can hold, and what desktop programs add to them.
_BUILT_IN = ("Acquire::IndexTargets::", "Acquire::Changelogs::", "Acquire::CompressionTypes::", "Acquire::cdrom::")
_SOURCES = "/etc/apt/sources.list"


@dataclass(frozen=True)
class AptInheritance:
    """``files`` by their path on both sides, ``options`` as lines of apt.conf, and ``folders`` that are sources."""

    files: dict[str, bytes]
    options: list[str]
    folders: set[str]

    @property
    def sources(self) -> dict[str, bytes]:
        """The files that name package sources."""
        return {name: content for name, content in self.files.items() if name.startswith(_SOURCES)}

    @property
    def source_texts(self) -> list[str]:
        """The content of the files that name package sources."""
        return [content.decode(errors="replace") for content in self.sources.values()]

    @classmethod
    def read(cls, root: Path, options: str, proxies: Mapping[str, str], notes: list[str]) -> AptInheritance:
        """Read the configuration below ``root``; ``options`` is what ``apt-config dump Acquire`` prints.

        What is left out is added to ``notes``.
        """
        files = _read_files(root, notes)
        texts = [content.decode(errors="replace") for content in files.values()]
        folders = {path for text in texts for path in _LOCAL_SOURCE.findall(text) if (root / path[1:]).is_dir()}
        return cls(files, _options(options, proxies, notes), folders)


def _read_files(root: Path, notes: list[str]) -> dict[str, bytes]:
    """Sources, preferences and keys. Not auth.conf, which is there for passwords."""
    if any((root / "etc/apt").glob("auth.conf*/*")) or (root / "etc/apt/auth.conf").is_file():
        notes.append("apt's passwords (auth.conf) stay here; a package source that asks for one fails in lab hosts")
    files: dict[str, bytes] = {}
    for path in (path for pattern in _FILES for path in sorted(root.glob(pattern)) if path.is_file()):
        name, content = f"/{path.relative_to(root)}", path.read_bytes()
        if has_credentials(content.decode(errors="replace")):
            notes.append(f"{name} holds a URL with a password; lab hosts do not get this file")
        else:
            files[name] = content
    for name, content in list(files.items()):
        if name.startswith(_SOURCES):
            files.update(_keys_named_in(content.decode(errors="replace"), root))
    return files


def _keys_named_in(sources: str, root: Path) -> dict[str, bytes]:
    names = [first or second for first, second in _SIGNED_BY.findall(sources)]
    return {name: (root / name[1:]).read_bytes() for name in names if (root / name[1:]).is_file()}


def _options(dump: str, proxies: Mapping[str, str], notes: list[str]) -> list[str]:
    """Return how apt fetches.

    Only that: the rest of a computer's apt.conf are hooks that call programs which a fresh host does not have.
    """
    lines = []
    for line in dump.splitlines():
        name = line.partition(" ")[0]
        if has_credentials(line) or name.lower().endswith("::sslkey"):
            notes.append(f"apt's {name} holds a secret; lab hosts do not get it")
        elif not line.endswith(' "";') and not name.startswith(_BUILT_IN):
            lines.append(line)
    lines.extend(f'Acquire::{scheme}::Proxy "{url}";' for scheme, url in sorted(proxies.items()))
    return lines
