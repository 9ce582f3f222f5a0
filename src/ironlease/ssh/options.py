"""Reads the OpenSSH options that an inventory gives to Ansible."""

from __future__ import annotations

import shlex


def parse(arguments: str) -> dict[str, str]:
    """Return the ``-o Name=value`` and ``-J`` options of an OpenSSH argument string, names in lower case.

    A jump host becomes the proxy command that OpenSSH itself would use. As in OpenSSH, the first value wins.
    """
    options: dict[str, str] = {}
    words = iter(shlex.split(arguments))
    for word in words:
        if word == "-J":
            pair = f"proxyjump={next(words, 'none')}"
        elif word == "-o":
            pair = next(words, "")
        elif word.startswith("-o"):
            pair = word[2:]
        else:
            continue
        name, _, value = pair.replace(" ", "=", 1).partition("=") if "=" not in pair else pair.partition("=")
        options.setdefault(name.strip().lower(), value.strip())
    jump = options.pop("proxyjump", "none")
    if jump != "none":
        options.setdefault("proxycommand", shlex.join(_through(jump)))
    return options


def _through(jump: str) -> list[str]:
    """Return the command that connects through one or more jump hosts (``[user@]host[:port]``, separated by commas)."""
    *before, last = jump.split(",")
    # Its own connection is what notices that nobody answers any more.
    alive = ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=6"]
    hops = ["-J", ",".join(before)] if before else []
    return ["ssh", *alive, *hops, "-W", "%h:%p", f"ssh://{last}"]
