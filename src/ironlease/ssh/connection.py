"""An open connection, and commands over it."""

from __future__ import annotations

import contextlib
import shlex
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import paramiko

from ironlease.ssh.errors import AnswerLateError, AnswerTooLongError, ConnectionLostError
from ironlease.ssh.target import Target

# A command's two-way stream, for those who keep one open.
Channel = paramiko.Channel

OPEN_TIMEOUT_SECONDS = 15.0
COMMAND_TIMEOUT_SECONDS = 60.0
# The longest answer is the seller's state, some megabytes; a host that sends without end must not fill our memory.
LIMIT_BYTES = 64 << 20
FIRST_LINE_LIMIT_BYTES = 64 << 10


class _TooLongError(Exception):
    """More came than any command of ours answers."""


@dataclass(frozen=True)
class Completed:
    """A command that ended on the host; ``output`` is its standard output as it came."""

    exit_status: int
    output: bytes
    errors: bytes

    @property
    def stdout(self) -> str:
        """The output as text."""
        return self.output.decode(errors="replace")

    @property
    def stderr(self) -> str:
        """The error output as text."""
        return self.errors.decode(errors="replace")


@dataclass(frozen=True)
class Started:
    """A command that goes on; ``ended`` is set when it has ended already, without a whole first line."""

    channel: Channel
    first_line: bytes
    ended: Completed | None


class Connection:
    """An open, authenticated connection. Use it as a context manager.

    ``key_file`` is the private key that the host accepted; None when it was the SSH agent's, or a password.
    """

    def __init__(self, target: Target, transport: paramiko.Transport, key_file: Path | None = None) -> None:
        self.target = target
        self.key_file = key_file
        self._transport = transport

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; never raises."""
        with contextlib.suppress(Exception):
            self._transport.close()

    def run(
        self,
        command: list[str] | str,
        *,
        stdin: bytes = b"",
        timeout_seconds: float = COMMAND_TIMEOUT_SECONDS,
    ) -> Completed:
        """Run ``command`` on the host and wait for its end.

        A list is quoted for the host's shell; a string is given to that shell as it is.
        Raises ConnectionLostError when the connection breaks or the time is up, AnswerTooLongError when the command
        prints more than 64 MiB.
        """
        text = command if isinstance(command, str) else shlex.join(command)
        with self._guard(f"`{text.split(maxsplit=1)[0]}` did not end within {timeout_seconds:.0f} s"):
            channel = self._transport.open_session(timeout=min(timeout_seconds, OPEN_TIMEOUT_SECONDS))
            with contextlib.closing(channel):
                channel.exec_command(text)
                output, errors = _exchange(channel, stdin, timeout_seconds)
                return Completed(channel.recv_exit_status(), output, errors)

    def start(self, command: list[str], stdin: bytes, *, timeout_seconds: float) -> Started:
        """Start ``command``, send ``stdin``, and wait for its first line; closing the channel closes its input.

        Raises ConnectionLostError when the connection breaks or there is no line in time.
        """
        with self._guard(f"`{command[0]}` gave no answer within {timeout_seconds:.0f} s"):
            channel = self._transport.open_session(timeout=OPEN_TIMEOUT_SECONDS)
            channel.settimeout(timeout_seconds)
            channel.exec_command(shlex.join(command))
            _send(channel, stdin)
            line = b""
            while not line.endswith(b"\n") and (chunk := channel.recv(4096)):
                line += chunk
                if len(line) > FIRST_LINE_LIMIT_BYTES:
                    raise _TooLongError
            if line.endswith(b"\n"):
                return Started(channel, line, None)
            if not channel.status_event.wait(timeout_seconds):
                raise TimeoutError
            if channel.recv_exit_status() == -1:
                raise _ended_early()
            return Started(channel, line, Completed(channel.recv_exit_status(), line, _read_all(channel.recv_stderr)))

    @contextlib.contextmanager
    def _guard(self, timed_out: str) -> Iterator[None]:
        try:
            yield
        except _TooLongError as error:
            raise AnswerTooLongError(
                found=f"{self.target.name}: a command printed without end; the rest was not read.",
                needed="An answer from our own program on the host.",
                next_step=f"See what the login prints on {self.target.name}: ssh {self.target.address} true",
                host=self.target.name,
            ) from error
        except TimeoutError as error:
            raise AnswerLateError(
                found=f"{self.target.name}: {timed_out}.",
                needed="An answer in time: a host that is not overloaded, and a disk that works.",
                next_step=f"On {self.target.name}: uptime; dmesg | tail, then run the same command again.",
                host=self.target.name,
            ) from error
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise ConnectionLostError(
                found=f"{self.target.name}: the connection broke ({str(error) or type(error).__name__}).",
                needed="An SSH connection that lasts until the command has ended.",
                next_step=f"Run the same command again; `ssh {self.target.address}` shows whether the host answers.",
                host=self.target.name,
            ) from error


def _read_all(receive: Callable[[int], bytes]) -> bytes:
    chunks, left = [], LIMIT_BYTES
    while chunk := receive(65536):
        chunks.append(chunk)
        left -= len(chunk)
        if left < 0:
            raise _TooLongError
    return b"".join(chunks)


def _read_or_close(channel: Channel, receive: Callable[[int], bytes]) -> bytes:
    """Read one stream; when it is too long, end the others too, which would wait for it."""
    try:
        return _read_all(receive)
    except _TooLongError:
        channel.close()
        raise


def _send(channel: Channel, data: bytes) -> None:
    try:
        channel.sendall(data)
    except TimeoutError:
        raise
    except OSError:
        # A command that ends without reading all of its input is no failure of the connection.
        return


def _send_all(channel: Channel, data: bytes) -> None:
    _send(channel, data)
    with contextlib.suppress(OSError):
        channel.shutdown_write()


def _ended_early() -> EOFError:
    return EOFError("the connection ended before the command did")


def _exchange(channel: paramiko.Channel, stdin: bytes, timeout_seconds: float) -> tuple[bytes, bytes]:
    """Send ``stdin`` and collect both outputs until the command ends.

    Raises TimeoutError after ``timeout_seconds``, EOFError when the connection ended before the command, and
    _TooLongError.
    """
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        with contextlib.suppress(OSError, EOFError):
            channel.close()

    timer = threading.Timer(timeout_seconds, expire)
    timer.start()
    try:
        # All three streams move at once: a command that fills one of them must not wait for another.
        with ThreadPoolExecutor(max_workers=2) as pool:
            stderr = pool.submit(_read_or_close, channel, channel.recv_stderr)
            sent = pool.submit(_send_all, channel, stdin)
            stdout = _read_or_close(channel, channel.recv)
            errors = stderr.result()
            sent.result()
        ended = channel.recv_exit_status() != -1
    finally:
        timer.cancel()
    if expired.is_set():
        raise TimeoutError
    if not ended:
        raise _ended_early()
    return stdout, errors
