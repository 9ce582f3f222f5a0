"""One provisioning of a host at a time, whoever starts it and from wherever.

The lock lies on the host and is held by a process whose standard input is our SSH channel: when this program ends, is
killed or loses its connection, the channel closes and the lock is free. Nothing has to be cleaned up.
"""

from __future__ import annotations

import getpass
import json
import socket
from types import TracebackType

from ironlease.agent import Agent, AgentError
from ironlease.errors import UnfinishedError
from ironlease.ssh import CONNECT_TIMEOUT_SECONDS


class BusyError(UnfinishedError):
    """Somebody else is provisioning the host."""

    code = "host-busy"


class ProvisionLock:
    """Holds the host's provisioning lock while the context is open."""

    def __init__(self, agent: Agent, command: str) -> None:
        self._agent = agent
        self._request = {"who": f"{getpass.getuser()}@{socket.gethostname()}", "command": command}

    def __enter__(self) -> ProvisionLock:
        self._channel = self._agent.start("hold", self._request)
        self._channel.settimeout(CONNECT_TIMEOUT_SECONDS)
        answer = self._read_answer()
        if not answer.get("held"):
            self._channel.close()
            raise self._busy(answer.get("by") or {})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._channel.close()

    def _read_answer(self) -> dict[str, object]:
        line = b""
        while not line.endswith(b"\n") and (chunk := self._channel.recv(4096)):
            line += chunk
        host = self._agent.host
        try:
            answer = json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise AgentError(
                found=f"{host}: the agent's `hold` answered {line[-300:]!r}.",
                needed="Whether the host's provisioning lock is held.",
                next_step=f"Run the same command again for {host}, with --debug if it repeats.",
                host=host,
            )
        return answer

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
