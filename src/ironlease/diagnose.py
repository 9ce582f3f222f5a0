"""Turns the words of a failed task into what was found, what is needed and what to do next.

Roles and our modules speak in three parts themselves: ``Found:``, ``Needed:`` and ``Next:`` lines in the message. The
words of apt, dpkg and pip, alone or in what was found, are recognised here, in one table; words that nobody knows are
shown as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ironlease.errors import ExitCode, IronleaseError, UnfinishedError
from ironlease.runner import TaskEvent

WORDS_LENGTH = 600


@dataclass(frozen=True)
class Diagnosis:
    """A known failure: how its words look, and what it means."""

    code: str
    pattern: re.Pattern[str]
    needed: str
    next_step: str
    exit_code: ExitCode = ExitCode.UNFINISHED


def _known(
    code: str, pattern: str, needed: str, next_step: str, exit_code: ExitCode = ExitCode.UNFINISHED
) -> Diagnosis:
    return Diagnosis(code, re.compile(pattern, re.IGNORECASE | re.DOTALL), needed, next_step, exit_code)


# The first that matches holds; the more precise stands above the more general.
KNOWN = (
    _known(
        "package-signature",
        r"NO_PUBKEY|EXPKEYSIG|BADSIG|is not signed|signatures? (?:couldn't be|were invalid)|GPG error",
        "Package sources that are signed by the key that the host has for them.",
        "Remove the source that apt names from /etc/apt/sources.list.d on {host}, or install its current key; "
        "then run the same command again.",
        ExitCode.USAGE,
    ),
    _known(
        "package-lock",
        r"could not get lock|unable to (?:acquire|lock).{0,80}(?:dpkg|apt)|is another process using it|"
        r"failed to lock apt",
        "The package manager's lock, which somebody else holds.",
        "Wait until the other installation on {host} has ended (`invoke probe --host {host}` says who holds it), "
        "then run the same command again.",
    ),
    _known(
        "disk-full",
        r"no space left on device|enough free (?:disk )?space|disk quota exceeded",
        "Free space on {host}'s disk.",
        "Free some (`apt-get clean`, `df -h` on {host}), then run the same command again.",
    ),
    _known(
        "package-source-unreachable",
        r"temporary failure (?:in name resolution|resolving)|could not resolve|failed to fetch|unable to connect|"
        r"could not connect|connection (?:refused|timed out)|cannot initiate the connection|"
        r"network is unreachable|name or service not known|newconnectionerror|connecttimeout|"
        r"some index files failed to download|failed to update apt cache|does not have a release file",
        "Package sources that {host} can reach.",
        "Look at the sources in /etc/apt and the pip configuration of {host} (`invoke probe --host {host}` lists "
        "them), or its route and resolver; then run the same command again.",
    ),
    _known(
        "dpkg-broken",
        r"dpkg was interrupted|dpkg --configure -a|half-configured|unmet dependencies|held broken packages|"
        r"--fix-broken|sub-process /usr/bin/dpkg returned an error",
        "A package manager whose packages are all installed whole.",
        "ssh to {host}: dpkg --configure -a && apt-get --fix-broken install; then run the same command again.",
        ExitCode.USAGE,
    ),
    _known(
        "package-hash",
        r"do not match the hashes|hash sum mismatch|hashes are required",
        "Packages with exactly the content that the stack file names.",
        "A mirror serves something else: check the pip index and proxies of {host}; do not go on with this package.",
        ExitCode.USAGE,
    ),
    _known(
        "package-missing",
        r"no matching distribution found|could not find a version that satisfies|unable to locate package|"
        r"no package matching|has no installation candidate",
        "Package sources that carry what the stack file names.",
        "Add the source or index that carries it on {host}, or choose another stack (`invoke stacks`).",
        ExitCode.USAGE,
    ),
    _known(
        "sudo",
        r"missing sudo password|incorrect sudo password|sudo: a password is required|is not in the sudoers file",
        "Root rights on {host}: login as root, or a user with sudo.",
        "invoke enrol --host {host} finds out what this login may do.",
        ExitCode.USAGE,
    ),
)

_THREE_PARTS = re.compile(
    r"Found:\s*(?P<found>.+?)\s*Needed:\s*(?P<needed>.+?)\s*Next:\s*(?P<next>.+?)\s*(?=Found:|\Z)", re.DOTALL
)


def explain(event: TaskEvent) -> list[IronleaseError]:
    """Return the failure of a failed task as errors, most often one."""
    words = failure_words(event)
    place = f"{event.host}: {event.role or 'play'}: {event.task}"
    stated = [_stated(part, event.host) for part in _three_parts(event)]
    if stated:
        return list(stated)
    short = short_words(event)
    for known in KNOWN:
        if known.pattern.search(words):
            return [
                UnfinishedError(
                    code=known.code,
                    exit_code=known.exit_code,
                    found=f"{place}: {short}",
                    needed=known.needed.format(host=event.host),
                    next_step=known.next_step.format(host=event.host),
                    host=event.host,
                )
            ]
    return [
        UnfinishedError(
            code="task-failed",
            found=f"{place}: {short}",
            needed="This task to succeed.",
            next_step=f"Mend what it names on {event.host}, then run the same command again; events.jsonl in the run "
            "folder has the whole output.",
            host=event.host,
        )
    ]


def _three_parts(event: TaskEvent) -> list[re.Match[str]]:
    """Return the refusals in the failed results' own messages; what Ansible adds to them is no part of the last one."""
    messages = (str(result.get("msg") or "") for result in event.results if result.get("failed", True))
    return [part for message in messages for part in _THREE_PARTS.finditer(message)]


def _stated(part: re.Match[str], host: str) -> UnfinishedError:
    """Return one stated refusal; the tool's words that it quotes decide the code."""
    known = next((known for known in KNOWN if known.pattern.search(part["found"])), None)
    return UnfinishedError(
        code=known.code if known else "refused",
        exit_code=known.exit_code if known else ExitCode.USAGE,
        found=_one_line(part["found"]),
        needed=_one_line(part["needed"]),
        next_step=_one_line(part["next"]),
        host=host,
    )


def looks_interrupted(event: TaskEvent) -> bool:
    """Return whether the failure is that of a module that was cut off, as by a reboot, and not one of its own."""
    if _three_parts(event):
        # It lived to say what it wants, whatever words of a broken connection it quotes.
        return False
    return event.kind == "unreachable" or bool(
        re.search(r"module failure|killed by signal|connection .{0,60}closed|shutting down", failure_words(event), re.I)
    )


def failure_words(event: TaskEvent) -> str:
    """Return everything that a failed task said, its own message first."""
    return "\n".join(text for result in event.results for text in _texts(result))


def short_words(event: TaskEvent) -> str:
    """Return the end of what a failed task said, on one line."""
    return _one_line(failure_words(event))[-WORDS_LENGTH:]


def _texts(result: dict[str, Any]) -> list[str]:
    if "failed" in result and not result["failed"]:
        return []
    values = (result.get(name) for name in ("msg", "stderr", "module_stderr", "module_stdout", "stdout", "exception"))
    return [value if isinstance(value, str) else str(value) for value in values if value]


def _one_line(text: str) -> str:
    return " ".join(text.split())
