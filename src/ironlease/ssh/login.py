"""Opening a connection: the host proves itself first, then we log in."""

from __future__ import annotations

import functools
import logging
import os
import shlex
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import paramiko

from ironlease import redact
from ironlease.errors import UnreachableError, UsageError
from ironlease.ssh.connection import Connection
from ironlease.ssh.errors import HostKeyChangedError, HostKeyUnknownError, LoginRefusedError
from ironlease.ssh.target import HostKey, Target

CONNECT_TIMEOUT_SECONDS = 15.0
# A host that vanished is noticed although no data is expected: something is sent every few seconds, and the kernel ends
# the connection when it is not acknowledged for as long as Ansible waits, instead of after a quarter of an hour.
SILENCE_SECONDS = float(os.environ.get("IRONLEASE_SILENCE_SECONDS", "30"))
KEEPALIVE_SECONDS = max(1, int(SILENCE_SECONDS / 3))
_WORDS_LENGTH = 300

# paramiko logs what it also raises, tracebacks included; the raised error is what a person gets to see.
logging.getLogger("paramiko").setLevel(logging.CRITICAL)


def fetch_host_key(target: Target, timeout_seconds: float = CONNECT_TIMEOUT_SECONDS) -> HostKey:
    """Return the key that ``target`` shows, without trusting it and without logging in."""
    transport = _negotiate(target, None, timeout_seconds)
    try:
        key = transport.get_remote_server_key()
        return HostKey(key.get_name(), key.get_base64())
    finally:
        transport.close()


def pinned_keys(known_hosts: Path, target: Target) -> list[HostKey]:
    """Return the keys that are pinned for ``target``; none when the file is not there.

    Raises UsageError when the file holds what is no host key: nobody can tell then which keys were pinned.
    """
    if not known_hosts.exists():
        return []
    try:
        entries = paramiko.HostKeys(str(known_hosts)).lookup(target.known_hosts_name)
    except (paramiko.hostkeys.InvalidHostKey, UnicodeDecodeError) as error:
        raise UsageError(
            code="known-hosts-broken",
            found=f"{known_hosts} has a line that is no host key: {error}",
            needed="Lines of a name, a kind and a key, as OpenSSH and `invoke enrol` write them.",
            next_step=f"Remove that line: ssh-keygen -l -f {shlex.quote(str(known_hosts))} lists the good ones.",
        ) from error
    return [] if entries is None else [HostKey(kind, key.get_base64()) for kind, key in entries.items()]


def connect(
    target: Target,
    known_hosts: Path,
    *,
    password: str | None = None,
    timeout_seconds: float = CONNECT_TIMEOUT_SECONDS,
) -> Connection:
    """Open a connection to ``target``, whose key must be pinned in ``known_hosts``.

    Tries the target's keys, then the SSH agent's and the user's default keys, then ``password``.
    Raises HostKeyUnknownError, HostKeyChangedError, LoginRefusedError or UnreachableError.
    """
    pinned = pinned_keys(known_hosts, target)
    if not pinned:
        raise HostKeyUnknownError(
            found=f"{target.name}: the host key of {target.known_hosts_name} was never pinned.",
            needed="A host key that you have confirmed once.",
            next_step=f"invoke enrol --host {target.name}",
            host=target.name,
        )
    try:
        transport = _negotiate(target, [key.kind for key in pinned], timeout_seconds)
    except UnreachableError as error:
        if not isinstance(error.__cause__, paramiko.ssh_exception.IncompatiblePeer):
            raise
        # It has no key of the pinned kind any more: the key that it has is what the user must be told of.
        transport = _negotiate(target, None, timeout_seconds)
    try:
        _compare_host_key(target, transport, pinned, known_hosts)
        key_file = _log_in(target, transport, password)
    except BaseException:
        transport.close()
        raise
    transport.set_keepalive(KEEPALIVE_SECONDS)
    return Connection(target, transport, key_file)


def _compare_host_key(target: Target, transport: paramiko.Transport, pinned: list[HostKey], known_hosts: Path) -> None:
    shown = transport.get_remote_server_key()
    key = HostKey(shown.get_name(), shown.get_base64())
    if key not in pinned:
        raise HostKeyChangedError(
            found=f"{target.name} shows the host key {key.fingerprint}; pinned is {pinned[0].fingerprint}.",
            needed="The pinned key. Another one means a reinstalled machine, or somebody in between.",
            next_step=(
                f"Ask the provider whether the machine was reinstalled. If it was: ssh-keygen -f {known_hosts} "
                f"-R '{target.known_hosts_name}', then invoke enrol --host {target.name}"
            ),
            host=target.name,
        )


def _negotiate(target: Target, key_kinds: list[str] | None, timeout_seconds: float) -> paramiko.Transport:
    """Open the transport up to the point where the host has shown its key."""
    deadline = time.monotonic() + timeout_seconds
    transport: paramiko.Transport | None = None
    complaints: IO[bytes] | None = None
    try:
        connection, complaints = _open_socket(target, timeout_seconds)
        transport = paramiko.Transport(_noticing_silence(connection))
        transport.banner_timeout = transport.handshake_timeout = timeout_seconds
        transport.auth_timeout = timeout_seconds
        if key_kinds:
            options = transport.get_security_options()
            # An RSA key signs under several names; ask for the pinned kind only, as OpenSSH does.
            wanted = {"ssh-rsa", "rsa-sha2-256", "rsa-sha2-512"} if "ssh-rsa" in key_kinds else set()
            wanted.update(key_kinds)
            options.key_types = [kind for kind in options.key_types if kind in wanted] or options.key_types
        transport.start_client(timeout=max(0.1, deadline - time.monotonic()))
        if not transport.initial_kex_done:
            # start_client returns in silence when its time is up.
            raise TimeoutError
    except (OSError, EOFError, paramiko.SSHException) as error:
        if transport is not None:
            transport.close()
        in_time = time.monotonic() < deadline
        raise _unreachable(target, error if in_time else TimeoutError(), timeout_seconds, _words(complaints)) from error
    return transport


def _words(complaints: IO[bytes] | None) -> str:
    """Return what a proxy command has said of its trouble."""
    if complaints is None:
        return ""
    complaints.seek(0)
    return " ".join(complaints.read().decode(errors="replace").split())[-_WORDS_LENGTH:]


def _unreachable(target: Target, error: Exception, timeout_seconds: float, words: str = "") -> UnreachableError:
    where = f"{target.address} port {target.port}"
    if isinstance(error, ConnectionRefusedError) or "connection refused" in (words or str(error)).casefold():
        code, what = "port-closed", f"{where} refuses the connection"
    elif words:
        code, what = "unreachable", f"{where} cannot be reached ({words})"
    elif isinstance(error, TimeoutError) or "timed out" in str(error).casefold():
        code, what = "timeout", f"{where} did not answer as an SSH server within {timeout_seconds:.0f} s"
    elif "banner" in str(error):
        code, what = "unreachable", f"{where} takes the connection and drops it, before it says that it speaks SSH"
    elif isinstance(error, socket.gaierror):
        code, what = "name-unknown", f"the name {target.address} cannot be resolved"
    else:
        reason = getattr(error, "strerror", None) or str(error) or "the connection ended"
        code, what = "unreachable", f"{where} cannot be reached ({reason})"
    return UnreachableError(
        code=code,
        found=f"{target.name}: {what}.",
        needed="A host that is up, with its SSH port open to this machine.",
        next_step=(
            f"ssh -v -p {target.port} {target.user}@{target.address} shows where it stops; "
            "compare the address and port in the inventory with the provider's panel."
        ),
        host=target.name,
    )


def _open_socket(target: Target, timeout_seconds: float) -> tuple[socket.socket, IO[bytes] | None]:
    """Return the connected socket, and the file in which a proxy command complains while the connection lasts."""
    command = target.options.get("proxycommand")
    if not command or command == "none":
        return socket.create_connection((target.address, target.port), timeout=timeout_seconds), None
    argv = shlex.split(command.replace("%h", target.address).replace("%p", str(target.port)).replace("%r", target.user))
    passes_socket = target.options.get("proxyusefdpass", "no") == "yes"
    ours, theirs = socket.socketpair()
    ours.settimeout(timeout_seconds)
    complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the proxy
    with theirs:
        process = subprocess.Popen(
            argv, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=complaints, start_new_session=True
        )
    if not passes_socket:
        # The proxy lives as long as the socket pair: closing our end is its end of file.
        return ours, complaints
    with ours, complaints:
        return _receive_socket(ours, process, complaints, timeout_seconds), None


def _noticing_silence(connection: socket.socket) -> socket.socket:
    # Linux has the option; a connection through a proxy's pipe leaves it to the proxy.
    if connection.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE_SECONDS * 1000))
    return connection


def _receive_socket(
    channel: socket.socket, process: subprocess.Popen[bytes], complaints: IO[bytes], timeout_seconds: float
) -> socket.socket:
    """Take the connected socket that a proxy passes (OpenSSH's ProxyUseFdpass)."""
    try:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    except TimeoutError:
        process.kill()
        raise
    finally:
        process.wait(timeout=timeout_seconds)
    if not descriptors:
        raise OSError(_words(complaints) or "the proxy command passed no connection")
    return socket.socket(fileno=descriptors[0])


@dataclass(frozen=True)
class _Attempt:
    """One way to log in; ``label`` says which, ``key_file`` is set for a key that lies in a file."""

    label: str
    make: Callable[[], object]
    key_file: Path | None = None


def _log_in(target: Target, transport: paramiko.Transport, password: str | None) -> Path | None:
    """Log in, and return the key file that was accepted."""
    refused: list[str] = []
    for attempt in _attempts(target, transport, password, refused):
        try:
            attempt.make()
        except paramiko.AuthenticationException:
            refused.append(attempt.label)
        except (paramiko.SSHException, EOFError, OSError) as error:
            raise _unreachable(target, error, CONNECT_TIMEOUT_SECONDS) from error
        if transport.is_authenticated():
            return attempt.key_file
    tried = ", ".join(refused) or "nothing, there is no key"
    raise LoginRefusedError(
        found=f"{target.name} refuses the login of {target.user}: tried {tried}.",
        needed="A key or a password that this host accepts.",
        next_step=(
            f"invoke enrol --host {target.name} --password-file FILE (or on a terminal, where it asks), "
            "with the password that the provider gave"
        ),
        host=target.name,
    )


def _attempts(
    target: Target, transport: paramiko.Transport, password: str | None, refused: list[str]
) -> Iterator[_Attempt]:
    """Yield what to try, by name: our keys, the agent's, the user's default keys, the password.

    A key file that cannot be read is put into ``refused`` with the reason.
    """
    yield from _key_file_attempts(target, transport, list(target.keys), refused)
    if target.options.get("identitiesonly") != "yes":
        for agent_key in paramiko.Agent().get_keys():
            login = functools.partial(transport.auth_publickey, target.user, agent_key)
            yield _Attempt(f"the agent's {agent_key.get_name()}", login)
        defaults = [Path.home() / ".ssh" / name for name in ("id_ed25519", "id_ecdsa", "id_rsa")]
        yield from _key_file_attempts(target, transport, defaults, refused)
    if password is not None:
        redact.register(password)
        yield _Attempt("the password", functools.partial(transport.auth_password, target.user, password))


def _key_file_attempts(
    target: Target, transport: paramiko.Transport, paths: list[Path], refused: list[str]
) -> Iterator[_Attempt]:
    for path in filter(Path.exists, paths):
        try:
            key = paramiko.PKey.from_path(path)
        except (paramiko.SSHException, ValueError, TypeError) as error:
            refused.append(f"{path} (cannot be read: {error})")
        else:
            yield _Attempt(str(path), functools.partial(transport.auth_publickey, target.user, key), path)


def user_options(address: str) -> dict[str, str]:
    """Return what ``~/.ssh/config`` says for ``address``, in paramiko's lower-case names."""
    path = Path.home() / ".ssh" / "config"
    if not path.exists():
        return {}
    found = paramiko.SSHConfig.from_path(str(path)).lookup(address)
    return {name: value for name, value in found.items() if isinstance(value, str)}
