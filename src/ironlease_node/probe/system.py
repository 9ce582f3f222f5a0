"""The operating system and the kernel that runs it."""

from __future__ import annotations

import re
import shlex
from typing import Any

from ironlease_node.host import Host, Unreadable
from ironlease_node.probe.sources import Sources
from ironlease_node.tools import NOT_FOUND, TIMED_OUT, Command

COMMANDS = {"virtualization": Command(["systemd-detect-virt"])}

_PROC_VERSION = re.compile(r"^Linux version (\S+) \([^)]*\) ")


def read_os(sources: Sources) -> dict[str, Any]:
    """Return the distribution, the kernel, and what they run in."""
    host, problems = sources.host, sources.problems
    release = parse_os_release(host.text("/etc/os-release"))
    compiler, version = parse_proc_version(host.text("/proc/version"))
    if compiler is None:
        problems.add("os.kernel_compiler", "/proc/version names no compiler")
    try:
        virtualization = _virtualization(sources)
    except Unreadable as error:
        virtualization = None
        problems.add("os.virtualization", error)
    native = sources.packages.native_architecture if sources.packages else None
    if native is None:
        problems.add("os.dpkg_architecture", sources.packages_problem or "dpkg's records do not name dpkg itself")
    return {
        "id": release.get("ID"),
        "id_like": release.get("ID_LIKE", "").split(),
        "version_id": release.get("VERSION_ID"),
        "codename": release.get("VERSION_CODENAME"),
        "pretty_name": release.get("PRETTY_NAME"),
        "kernel_release": host.text("/proc/sys/kernel/osrelease").strip(),
        "kernel_version": version,
        "kernel_compiler": compiler,
        "kernel_command_line": host.text("/proc/cmdline").strip(),
        "architecture": host.architecture,
        "dpkg_architecture": native,
        "virtualization": virtualization,
        "init": host.text("/proc/1/comm").strip(),
    }


def parse_os_release(text: str) -> dict[str, str]:
    """Parse os-release(5): shell assignments, with or without quotes."""
    values = {}
    for line in text.splitlines():
        key, separator, value = line.strip().partition("=")
        if separator and not key.startswith("#"):
            values[key] = " ".join(shlex.split(value))
    return values


def parse_proc_version(text: str) -> tuple[str | None, str | None]:
    """Return the compiler and the build's version of /proc/version.

    The compiler stands in parentheses that hold parentheses themselves, after those of the builder:
    `Linux version R (builder@host) (gcc (Debian 12.2.0-14) 12.2.0, GNU ld ...) #1 SMP ...`.
    """
    match = _PROC_VERSION.match(text)
    if match is None:
        return None, None
    rest = text[match.end() :]
    compiler, depth = None, 0
    for position, character in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0:
            compiler = rest[1:position] or None
            rest = rest[position + 1 :]
            break
    return compiler, rest.strip() or None


def _virtualization(sources: Sources) -> str:
    outcome = sources.outcomes["virtualization"]
    word = outcome.stdout.strip()
    # On metal it prints `none` and exits with 1: the word decides, not the exit status.
    if outcome.status in {NOT_FOUND, TIMED_OUT} or not word:
        raise Unreadable(outcome.reason)
    return word


def read_name(host: Host) -> str:
    """Return the host's name as the kernel has it."""
    return host.text("/proc/sys/kernel/hostname").strip()
