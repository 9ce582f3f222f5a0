"""The password of a command: from a file, or asked for at a terminal, once."""

from __future__ import annotations

from pathlib import Path

from ironlease import redact
from ironlease.console import Console
from ironlease.errors import UsageError
from ironlease.ssh import Target


class Passwords:
    """What is known of the hosts' password; ``given`` is None as long as nobody gave one.

    It installs our key where a host takes no key yet, and is sudo's where sudo asks for one.
    """

    def __init__(self, console: Console, file: str | None) -> None:
        self._console = console
        self.given = None if file is None else _read(Path(file))

    @property
    def can_ask(self) -> bool:
        """Whether :meth:`for_login` and :meth:`for_sudo` have somebody to ask."""
        return self.given is None and self._console.interactive

    def for_login(self, target: Target) -> str:
        """Return the password that opens ``target``; each host may have its own, so each is asked for."""
        return self.given or self._console.password(f"Password of {target.user} on {target.name}:")

    def for_sudo(self, target: Target) -> str | None:
        """Return sudo's password; asked for once, because Ansible takes one for all hosts. None: nobody to ask."""
        if self.can_ask:
            self.given = self._console.password(f"sudo password of {target.user} on {target.name}:")
        return self.given


def _read(path: Path) -> str:
    try:
        text = path.expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(path, f"cannot be read ({error})") from error
    if not text or "\n" in text:
        raise _unusable(path, "holds no password" if not text.strip() else "holds several lines")
    redact.register(text)
    return text


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        code="password-file",
        found=f"The password file {path} {why}.",
        needed="A readable file that holds the password, on one line, and nothing else.",
        next_step=f"install -m 600 /dev/stdin {path} (then type the password, Enter, Ctrl-D)",
    )
