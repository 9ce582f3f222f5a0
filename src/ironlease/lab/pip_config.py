"""Where this computer's pip takes packages from, as one pip.conf for a lab host.

Order and file names follow pip's documentation, "Configuration": global, user, ``PIP_CONFIG_FILE``, then the
environment; the last one wins, and an empty value switches an option off.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ironlease.lab.credentials import has_credentials

# What says where packages come from and how they are fetched. Everything else is the user's taste, or names a
# place that only this computer has (cache-dir, target, log), or is a secret (client-cert).
_INHERITED = frozenset(
    {
        "index-url",
        "extra-index-url",
        "find-links",
        "no-index",
        "trusted-host",
        "constraint",
        "cert",
        "proxy",
        "timeout",
        "default-timeout",
        "retries",
        "prefer-binary",
        "only-binary",
        "no-binary",
        "disable-pip-version-check",
    }
)
_FILE_OPTIONS = frozenset({"constraint", "cert"})
_FOLDER_OPTIONS = frozenset({"index-url", "extra-index-url", "find-links"})
_LINK = re.compile(r"""href=["']([^"'#]+)""")


@dataclass(frozen=True)
class PipInheritance:
    """``files`` by their path inside the host, and the ``folders`` to show there at the same path."""

    files: dict[str, str]
    folders: list[str]

    @classmethod
    def read(
        cls, environment: Mapping[str, str], root: Path, proxies: Mapping[str, str], notes: list[str]
    ) -> PipInheritance:
        """Read the configuration below ``root``; what is left out is added to ``notes``."""
        proxy = proxies.get("https") or proxies.get("http") or ""
        options = {
            name: value
            for name, value in {"proxy": proxy, **effective_options(environment, root)}.items()
            if name in _INHERITED and value.strip() and _is_harmless(name, value, notes)
        }
        files: dict[str, str] = {}
        folders: set[str] = set()
        for name in _FILE_OPTIONS & options.keys():
            for path in options[name].split():
                _take_file(path, root, files, notes)
        for name in _FOLDER_OPTIONS & options.keys():
            folders.update(_local_folders(options[name], root, notes))
        if options:
            files["/etc/pip.conf"] = _as_text(options)
        return cls(files=files, folders=sorted(folders))


def effective_options(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return pip's options as ``pip install`` would see them, without those of a virtual environment."""
    home = environment.get("HOME", "/root")
    config_home = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    folders = [folder for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if folder]
    own = environment.get("PIP_CONFIG_FILE", "")
    options: dict[str, str] = {}
    if own != "/dev/null":  # pip's way to say: no file at all
        names = [*(f"{folder}/pip/pip.conf" for folder in folders), "/etc/pip.conf"]
        names += [f"{home}/.pip/pip.conf", f"{config_home}/pip/pip.conf", *([own] if own else [])]
        for name in names:
            options.update(_read_file(root / name.lstrip("/")))
    for name, value in environment.items():
        if name.startswith("PIP_") and name != "PIP_CONFIG_FILE":
            options[name.removeprefix("PIP_").lower().replace("_", "-")] = value
    return options


def _read_file(path: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError, OSError):
        return {}  # pip itself refuses such a file, and says why, at the next call on this computer
    options: dict[str, str] = {}
    for section in ("global", "install"):
        if parser.has_section(section):
            options.update({name.replace("_", "-"): value for name, value in parser.items(section)})
    return options


def _is_harmless(name: str, value: str, notes: list[str]) -> bool:
    if has_credentials(value):
        notes.append(f"pip's {name} holds a URL with credentials; lab hosts do not get it")
        return False
    return True


def _take_file(path: str, root: Path, files: dict[str, str], notes: list[str]) -> None:
    source = root / path.lstrip("/")
    if not path.startswith("/") or not source.is_file():
        notes.append(f"pip's file {path} is not there, or is not given by its full path; lab hosts do not get it")
        return
    text = source.read_text(encoding="utf-8", errors="replace")
    if has_credentials(text) or "PRIVATE KEY" in text:
        notes.append(f"pip's file {path} holds a secret; lab hosts do not get it")
        return
    files[path] = text


def _local_folders(value: str, root: Path, notes: list[str]) -> set[str]:
    """Return the folders of this computer that the URLs and paths in ``value`` name."""
    found = set()
    for word in value.split():
        path = unquote(urlsplit(word).path) if word.startswith("file:") else word
        if "://" in path:
            continue
        if not path.startswith("/"):
            notes.append(f"pip's folder {word} is not given by its full path; lab hosts do not get it")
        elif not (root / path[1:]).is_dir():
            continue  # a file, or a folder that is not there: pip skips it on this computer, too
        else:
            found.update({str(Path(path)), *_linked_folders(Path(path), root)})
    return found


def _linked_folders(index: Path, root: Path) -> set[str]:
    """Return where the files of a local index lie: its pages, one folder for each project, may point beside it."""
    for page in sorted((root / str(index)[1:]).glob("*/index.html")):
        place = index / page.parent.name
        links = _LINK.findall(page.read_text(encoding="utf-8", errors="replace"))
        targets = {Path(os.path.normpath(place / unquote(urlsplit(link).path))) for link in links if "://" not in link}
        # One page stands for all: an index is written by one program.
        return {str(target.parent) for target in targets if not target.is_relative_to(index)}
    return set()


def _as_text(options: Mapping[str, str]) -> str:
    lines = ["# From the computer that runs this lab host.", "[global]"]
    for name in sorted(options):
        words = options[name].split()
        lines.append(f"{name} = " + (words[0] if len(words) == 1 else "".join(f"\n    {word}" for word in words)))
    return "\n".join(lines) + "\n"
