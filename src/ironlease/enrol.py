"""First contact with a host: pin its key, install ours, find out about sudo.

Nothing here trusts silently. A host key is pinned when it was confirmed on a terminal, when its fingerprint was given,
or when somebody who cannot be mistaken vouches for it (the lab knows the keys that it made).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ironlease import files, redact, ssh
from ironlease.agent import Privilege
from ironlease.errors import ExitCode, UnreachableError, UsageError
from ironlease.paths import Project
from ironlease.ssh import Connection, HostKey, Target

SCHEMA = "ironlease.enrolment/1"
_SUDO_WORDS = 200


class HostKeyRefusedError(UnreachableError):
    """The host's key was not confirmed, or is not the one whose fingerprint was given."""

    code = "host-key-refused"


class SudoMissingError(UsageError):
    """The login is neither root nor able to become it."""

    code = "no-sudo"


@dataclass(frozen=True)
class Enrolment:
    """What first contact found out about a host."""

    host: str
    fingerprint: str
    user: str
    sudo: str
    key_file: str | None

    def to_json(self) -> dict[str, Any]:
        """Return the record as ``ironlease.enrolment/1``."""
        return {"schema": SCHEMA, **asdict(self)}

    @classmethod
    def load(cls, project: Project, host: str) -> Enrolment | None:
        """Return the record of an earlier enrolment, or None."""
        document = files.read_document(_record_path(project, host), SCHEMA)
        if document is None or not document.keys() >= cls.__dataclass_fields__.keys():
            return None
        return cls(**{name: document[name] for name in cls.__dataclass_fields__})

    def is_of(self, target: Target, pinned: list[HostKey]) -> bool:
        """Return whether this is about ``target``'s login, and not about another host that had its name."""
        return self.user == target.user and self.fingerprint in {key.fingerprint for key in pinned}

    def save(self, project: Project) -> None:
        """Keep the record under the host's state folder."""
        files.write_json(_record_path(project, self.host), self.to_json())


def _record_path(project: Project, host: str) -> Path:
    return project.host_state(host) / "enrolment.json"


def key_path(project: Project, inventory: Path) -> Path:
    """Return where the key made for ``inventory`` lies."""
    name = inventory.name if inventory.is_dir() else inventory.parent.name
    return project.state / "keys" / (name or "inventory") / "id_ed25519"


def ensure_key(path: Path, comment: str) -> str:
    """Make an Ed25519 key pair at ``path`` when there is none; return its public line.

    Raises UsageError when ssh-keygen is missing or a private key has no public half beside it.
    """
    public = path.with_name(path.name + ".pub")
    try:
        if not (path.exists() and public.exists()):
            _make_key(path, public, comment)
    except (OSError, subprocess.SubprocessError) as error:
        raise UsageError(
            code="ssh-key",
            found=f"The SSH key {path} could not be made or read ({error}).",
            needed="A private key without a passphrase, or one whose public half (.pub) lies beside it.",
            next_step=f"ssh-keygen -t ed25519 -f {path}",
        ) from error
    return public.read_text(encoding="utf-8").strip()


def _make_key(path: Path, public: Path, comment: str) -> None:
    # One key serves all hosts of an inventory, and they are enrolled side by side.
    with files.changing(path):
        if not path.exists():
            files.private_folder(path.parent)
            _ssh_keygen(["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)])
        elif not public.exists():
            files.write_atomically(public, _ssh_keygen(["-y", "-P", "", "-f", str(path)]), mode=0o644)


def _ssh_keygen(arguments: list[str]) -> bytes:
    return subprocess.run(
        ["ssh-keygen", *arguments], check=True, capture_output=True, timeout=30, stdin=subprocess.DEVNULL
    ).stdout


def pin_host_key(
    project: Project,
    target: Target,
    *,
    vouched: HostKey | None,
    fingerprint: str | None,
    confirm: Callable[[HostKey], bool] | None,
) -> HostKey:
    """Return the pinned key of ``target``; at first contact, pin it.

    ``vouched`` is a key that is known for certain, ``fingerprint`` the one that the user gave, ``confirm`` asks on a
    terminal and is None where there is none. Raises HostKeyRefusedError, HostKeyChangedError, UnreachableError.
    """
    pinned = ssh.pinned_keys(project.known_hosts, target)
    if vouched is not None:
        if vouched not in pinned:
            _write_pin(project, target, vouched)
        return vouched
    if pinned:
        if fingerprint is not None and fingerprint not in {key.fingerprint for key in pinned}:
            raise _refused(
                target, pinned[0], f"--fingerprint says {fingerprint}, but {pinned[0].fingerprint} is pinned"
            )
        return pinned[0]
    shown = ssh.fetch_host_key(target)
    if fingerprint is not None:
        if fingerprint.rstrip("=") != shown.fingerprint:
            raise _refused(target, shown, f"--fingerprint says {fingerprint}")
    elif confirm is None:
        raise _refused(target, shown, "nobody is at a terminal to confirm it")
    elif not confirm(shown):
        raise _refused(target, shown, "it was not confirmed")
    _write_pin(project, target, shown)
    return shown


def _write_pin(project: Project, target: Target, key: HostKey) -> None:
    # Hosts are enrolled side by side, and another command may enrol others at the same time.
    with files.changing(project.known_hosts):
        lines = project.known_hosts.read_text(encoding="utf-8").splitlines() if project.known_hosts.exists() else []
        kept = [line for line in lines if line.split(maxsplit=1)[:1] != [target.known_hosts_name]]
        kept.append(f"{target.known_hosts_name} {key.kind} {key.base64}")
        files.write_atomically(project.known_hosts, "\n".join(kept) + "\n")


def _refused(target: Target, key: HostKey, why: str) -> HostKeyRefusedError:
    return HostKeyRefusedError(
        found=f"{target.name} ({target.address}) shows the host key {key.fingerprint}, and {why}.",
        needed="The fingerprint of this host from the provider's panel or from its console.",
        next_step=f"invoke enrol --host {target.name} --fingerprint {key.fingerprint} (only if it is the right one)",
        host=target.name,
    )


def install_key(connection: Connection, public_key: str) -> bool:
    """Add ``public_key`` to the login's authorized_keys; return whether it was not there yet."""
    script = (
        "umask 077 && mkdir -p ~/.ssh && touch ~/.ssh/authorized_keys && read -r key "
        '&& if grep -qxF "$key" ~/.ssh/authorized_keys; then echo there; '
        # A file that does not end in a newline would swallow the first key that is appended.
        'else [ -z "$(tail -c1 ~/.ssh/authorized_keys)" ] || echo >> ~/.ssh/authorized_keys; '
        'printf "%s\\n" "$key" >> ~/.ssh/authorized_keys && echo added; fi'
    )
    completed = connection.run(["sh", "-c", script], stdin=public_key.encode() + b"\n")
    if completed.exit_status != 0:
        raise UsageError(
            code="key-not-installed",
            found=f"{connection.target.name}: our key could not be installed: {completed.stderr.strip()}",
            needed="A home directory with an authorized_keys file that its owner may write.",
            next_step="Make ~/.ssh writable on the host, then run invoke enrol again.",
            host=connection.target.name,
        )
    return completed.stdout.strip() == "added"


def find_sudo(connection: Connection, password: str | None) -> tuple[str, Privilege]:
    """Find out how this login becomes root: ``root``, ``passwordless`` or ``password``.

    ``password`` is tried for sudo when it asks for one. Raises SudoMissingError when there is no way.
    """
    if connection.run(["id", "-u"]).stdout.strip() == "0":
        return "root", Privilege.none()
    refused = ""
    ways = [("passwordless", Privilege.sudo())]
    if password is not None:
        ways.append(("password", Privilege.sudo(password)))
    for name, privilege in ways:
        completed = connection.run([*privilege.prefix, "id", "-u"], stdin=privilege.stdin(b""))
        if completed.exit_status == 0 and completed.stdout.strip() == "0":
            return name, privilege
        refused = " ".join(redact.scrub(completed.stderr).split())[:_SUDO_WORDS]
    host, user = connection.target.name, connection.target.user
    raise SudoMissingError(
        found=f"{host}: {user} is not root, and sudo does not let it become root"
        f"{' with the given password' if password is not None else ''}: {refused or 'it says nothing'}.",
        needed="Login as root, or a user with sudo (with a password: --password-file or a terminal).",
        next_step=f"Set ansible_user: root for {host} in the inventory, add --password-file FILE with the right "
        f"password, or give {user} sudo rights.",
        host=host,
    )


def disable_password_login(connection: Connection, privilege: Privilege) -> None:
    """Turn password login off in sshd, after our key was proved to work on a connection of its own.

    The drop-in is tested by sshd before it is loaded, and taken back when sshd refuses it.
    """
    path = "/etc/ssh/sshd_config.d/00-ironlease.conf"
    script = (
        f"set -e; umask 022; printf '%s\\n' 'PasswordAuthentication no' 'KbdInteractiveAuthentication no' > {path}; "
        f"if ! sshd=$(PATH=$PATH:/usr/sbin command -v sshd) || ! $sshd -t; then rm -f {path}; exit 1; fi; "
        "systemctl reload ssh.service 2>/dev/null || systemctl reload sshd.service; "
        "$sshd -T | grep -qix 'passwordauthentication no'"
    )
    argv = [*privilege.prefix, "sh", "-c", script]
    completed = connection.run(argv, stdin=privilege.stdin(b""))
    if completed.exit_status != 0:
        raise UsageError(
            code="password-login-stays",
            exit_code=ExitCode.FAIL,
            found=f"{connection.target.name}: sshd did not take over the setting: {completed.stderr.strip()[-300:]}",
            needed="An sshd that reads /etc/ssh/sshd_config.d and answers `sshd -t`.",
            next_step="Look at /etc/ssh/sshd_config on the host: an earlier PasswordAuthentication line wins there.",
            host=connection.target.name,
        )
