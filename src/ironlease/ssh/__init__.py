"""SSH connections whose host keys are pinned; the only package that imports paramiko.

OpenSSH (through Ansible) and this package read the same ``known_hosts`` file, the same ``ansible_*`` variables and the
same ``~/.ssh/config``, so that whatever one of them reaches the other reaches too.
"""

from ironlease.ssh.connection import Channel, Completed, Connection, Started
from ironlease.ssh.errors import (
    AnswerLateError,
    AnswerTooLongError,
    ConnectionLostError,
    HostKeyChangedError,
    HostKeyUnknownError,
    LoginRefusedError,
    is_unreachable,
)
from ironlease.ssh.login import (
    CONNECT_TIMEOUT_SECONDS,
    SILENCE_SECONDS,
    connect,
    fetch_host_key,
    pinned_keys,
    user_options,
)
from ironlease.ssh.target import HostKey, Target

__all__ = [
    "CONNECT_TIMEOUT_SECONDS",
    "SILENCE_SECONDS",
    "AnswerLateError",
    "AnswerTooLongError",
    "Channel",
    "Completed",
    "Connection",
    "ConnectionLostError",
    "HostKey",
    "HostKeyChangedError",
    "HostKeyUnknownError",
    "LoginRefusedError",
    "Started",
    "Target",
    "connect",
    "fetch_host_key",
    "is_unreachable",
    "pinned_keys",
    "user_options",
]
