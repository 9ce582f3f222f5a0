"""Open a TCP connection to a lab host from inside the lab's network namespace, and hand it to the caller.

Run by ssh as ``ProxyCommand python3 -IS connect.py NAMESPACE ADDRESS PORT`` with ``ProxyUseFdpass=yes``: standard
output is then one end of a socket pair, over which the connected socket itself is sent. No process stays in between,
and no packet for a lab address can ever leave through this computer's own network.

Imports the standard library alone, because it runs without the project's environment and once per connection.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys

CONNECT_SECONDS = 10.0
_CLONE_NEWNET = 0x40000000  # linux/sched.h


def enter_network(namespace: str) -> None:
    """Move the calling thread into the network namespace that is bound to the path ``namespace``.

    Raises OSError.
    """
    # os.setns exists from Python 3.12 on.
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), namespace)
    finally:
        os.close(descriptor)


def open_connection(namespace: str, address: str, port: int) -> socket.socket:
    """Return a blocking socket that is connected to a lab host. Raises OSError."""
    enter_network(namespace)
    connection = socket.create_connection((address, port), timeout=CONNECT_SECONDS)
    # The time limit was for connecting: whoever gets the socket expects a blocking one.
    connection.setblocking(True)
    return connection


def refusal(namespace: str, error: OSError) -> str:
    """Return the message for a connection that did not come about: found, needed, next."""
    if os.geteuid() != 0:
        return "lab hosts can be reached by root only. Needed: root. Next: the same command with sudo"
    if error.filename == namespace:
        return f"this lab is not running ({namespace}). Needed: a lab that is up. Next: invoke lab.up"
    return f"the lab host does not answer ({error}). Needed: a host that is up. Next: invoke lab.list"


def main(arguments: list[str]) -> int:
    """Connect, pass the socket over standard output, and return the exit code."""
    if len(arguments) != 3 or not arguments[2].isdigit():
        sys.stderr.write("usage: connect.py NAMESPACE ADDRESS PORT\n")
        return 2
    namespace, address, port = arguments
    try:
        with (
            open_connection(namespace, address, int(port)) as connection,
            socket.socket(fileno=os.dup(1)) as caller,
        ):
            socket.send_fds(caller, [b"\0"], [connection.fileno()])
    except OSError as error:
        sys.stderr.write(f"ironlease lab: {refusal(namespace, error)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
