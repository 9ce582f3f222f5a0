"""One provisioning of a host at a time, whoever starts it and from wherever.

The lock lies on the host and is held by a process whose standard input is our SSH channel: when this program ends or is
killed, the channel closes and the lock is free. When the network goes away, nothing closes; so we send a byte every few
seconds, and a holder that hears nothing for some time gives the lock back. Nothing has to be cleaned up.
"""

from __future__ import annotations

import contextlib
import getpass
import socket
import threading
import uuid
from types import TracebackType

from ironlease.agent import Agent
from ironlease.errors import UnfinishedError
from ironlease.ssh import SILENCE_SECONDS, Channel

# A third of what the holder takes for a sign of life (hold.ALIVE_SECONDS).
HEARTBEAT_SECONDS = 5.0
# How long the holder may hear nothing. Ansible gives a silent connection up earlier, so that the lock is never given
# back under a play that still runs.
LIMIT_SECONDS = 2 * SILENCE_SECONDS
# The answer may wait for a silent holder's end.
ANSWER_SECONDS = LIMIT_SECONDS + 30.0
# Names this command, over all its connections, so that it is not kept out by what it left behind itself.
_TOKEN = uuid.uuid4().hex


class BusyError(UnfinishedError):
    """Somebody else is provisioning the host."""

    code = "host-busy"


class ProvisionLock:
    """Holds the host's provisioning lock while the context is open."""

    def __init__(self, agent: Agent, command: str) -> None:
        self._agent = agent
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        self._request = {"who": who, "command": command, "token": _TOKEN, "silence_seconds": LIMIT_SECONDS}
        self._released = threading.Event()

    def __enter__(self) -> ProvisionLock:
        self._channel, answer = self._agent.start("hold", self._request, timeout_seconds=ANSWER_SECONDS)
        if not answer.get("held"):
            self._channel.close()
            raise self._busy(answer.get("by"))
        threading.Thread(target=_keep_alive, args=(self._channel, self._released), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._channel.close()

    def _busy(self, holder: object) -> BusyError:
        host = self._agent.host
        details = holder if isinstance(holder, dict) else {}
        who = details.get("who") or "somebody"
        return BusyError(
            found=(
                f"{host} is being provisioned by {who} since {details.get('since') or 'an unknown time'} "
                f"(`{details.get('command') or 'unknown command'}`)."
            ),
            needed="One provisioning of a host at a time.",
            next_step=f"Wait for {who} to finish, then run the same command again.",
            host=host,
        )


def _keep_alive(channel: Channel, released: threading.Event) -> None:
    # A channel that does not take the byte is closed or lost; whoever uses the connection will notice.
    with contextlib.suppress(OSError):
        while not released.wait(HEARTBEAT_SECONDS):
            channel.sendall(b"\n")
