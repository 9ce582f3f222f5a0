"""A real SSH server on the loopback interface, for tests: it runs the commands it is given in a shell."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from pathlib import Path

import paramiko


class _Session(paramiko.ServerInterface):
    def __init__(self, server: SshServer) -> None:
        self._server = server

    def check_auth_publickey(self, username, key):
        accepted = key.get_base64() in self._server.authorized_keys
        return paramiko.AUTH_SUCCESSFUL if accepted else paramiko.AUTH_FAILED

    def check_auth_password(self, username, password):
        accepted = password == self._server.password
        return paramiko.AUTH_SUCCESSFUL if accepted else paramiko.AUTH_FAILED

    def get_allowed_auths(self, username):
        return "publickey,password"

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        thread = threading.Thread(target=self._server.execute, args=(channel, command.decode()), daemon=True)
        thread.start()
        return True


class SshServer:
    """Listens on a free port of 127.0.0.1 until it is closed."""

    def __init__(self, host_key: paramiko.PKey, *, password: str | None = None) -> None:
        self.host_key = host_key
        self.password = password
        self.authorized_keys: set[str] = set()
        self._transports: list[paramiko.Transport] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                transport = paramiko.Transport(connection)
                transport.add_server_key(self.host_key)
                self._transports.append(transport)
                with contextlib.suppress(paramiko.SSHException, EOFError):
                    transport.start_server(server=_Session(self))

    def execute(self, channel: paramiko.Channel, command: str) -> None:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        threading.Thread(target=self._feed, args=(channel, process), daemon=True).start()
        errors = threading.Thread(target=self._copy, args=(process.stderr, channel.sendall_stderr), daemon=True)
        errors.start()
        self._copy(process.stdout, channel.sendall)
        errors.join(timeout=10)
        with contextlib.suppress(OSError, EOFError):
            channel.send_exit_status(process.wait(timeout=10))
            channel.close()

    def _feed(self, channel: paramiko.Channel, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(OSError):
            while chunk := channel.recv(65536):
                process.stdin.write(chunk)
            process.stdin.close()

    def _copy(self, source, send) -> None:
        with contextlib.suppress(OSError, EOFError):
            while chunk := source.read1(65536):
                send(chunk)

    def cut(self) -> None:
        """Break every connection, as a host that vanishes does."""
        for transport in self._transports:
            transport.close()

    def close(self) -> None:
        if self._socket.fileno() == -1:
            return
        # A thread that waits in accept keeps a merely closed socket listening.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.cut()


def new_key(folder: Path, name: str) -> paramiko.PKey:
    """Make an Ed25519 key pair with ssh-keygen, as ironlease does."""
    path = folder / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True, timeout=30, capture_output=True
    )
    return paramiko.PKey.from_path(path)
