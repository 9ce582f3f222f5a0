"""``invoke init``: writes an inventory that validates, from a few answers or from flags."""

from __future__ import annotations

import ipaddress
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ironlease import files, inventory, schema, stack, suggest
from ironlease.errors import IronleaseError, UsageError
from ironlease.lease import Lease
from ironlease.ops import inventories
from ironlease.ops.context import Context
from ironlease.ops.result import Result

T = TypeVar("T")

DEFAULT_NAME = "fleet"
DEFAULT_USER = "root"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")

_HEAD = """\
# yaml-language-server: $schema=../../schemas/inventory.schema.json
# Ordinary Ansible YAML plus the ironlease_* variables, which docs/reference/inventory.md explains. Every command checks
# this file and says what is wrong in it, with the line.
# Next: ./invoke provision {which}
gpu_nodes:
  hosts:
"""

_VARIABLES = """\
  # For all hosts above; a host can have its own value under its name.
  vars:
    ansible_user: {user}
    ironlease_stack: {stack} # ./invoke stacks lists them
{lease}

    # What was promised; a host that has less is reported. The GPUs' names are in catalog/gpus.yml.
    # ironlease_expect: {{gpu: H100-SXM-80G, gpus: 8, link: nvlink, fabric: infiniband, nic_gbps: 400, nics: 8}}

    # The trainings whose checkpoints are kept, and where.
    # ironlease_checkpoints:
    #   runs: [{{name: my-run, path: /data/checkpoints/my-run}}]
    #   store: s3://bucket/prefix
    #   keep_last: 3

    # The account that trainings run as.
    # ironlease_training_user: ironlease

    # A mirror of the Python package index; the hashes in the stack stay as they are.
    # ironlease_index_url: https://mirror.example/simple
"""

_LEASE = """
    # A time needs its offset. The lessor's grace is shown but never counted on.
    ironlease_lease:
      ends_at: "{ends_at}"
      # grace_hours: 24
      # provider: example
      # price_cny_month: 84480
"""

_NO_LEASE = """
    # Without the end of the lease nothing can warn of it.
    # ironlease_lease: {ends_at: "2026-12-31T18:00:00+08:00", grace_hours: 24, provider: example}
"""


@dataclass(frozen=True)
class Answers:
    """What the inventory is made from; ``hosts`` maps names to addresses."""

    name: str
    hosts: dict[str, str]
    user: str
    port: int | None
    stack: str
    lease_ends: str | None


def run(
    context: Context,
    *,
    name: str | None,
    host: list[str],
    user: str | None,
    port: int | None,
    stack: str | None,
    lease_ends: str | None,
) -> Result:
    """Write inventories/NAME/hosts.yml. What no flag says is asked for on a terminal; nothing is overwritten."""
    questions = _Questions(context)
    answers = Answers(
        name=questions.settle("name", name, "Name of the inventory?", DEFAULT_NAME, questions.name),
        hosts=questions.settle(
            "host",
            ",".join(host) or None,
            "Hosts, as NAME=ADDRESS, separated by commas (such as node1=203.0.113.11)?",
            "",
            parse_hosts,
        ),
        user=questions.settle("user", user, "Login that the seller gave?", DEFAULT_USER, _user),
        port=_port(port),
        stack=questions.settle(
            "stack", stack, f"Stack ({', '.join(questions.stacks)})?", questions.stacks[-1], questions.stack
        ),
        lease_ends=questions.settle(
            "lease-ends",
            lease_ends,
            "End of the lease, such as 2026-12-31T18:00:00+08:00 (empty: not said)?",
            "",
            _lease_ends,
        ),
    )
    only = not inventories.own_names(context.project)
    path = _write(context.project.inventories / answers.name, render(answers, only=only))
    return Result(
        data={"inventory": str(path), "hosts": answers.hosts},
        lines=[f"Wrote {path}: {', '.join(answers.hosts)} with the stack {answers.stack}."],
        summary=f"Next: invoke provision {_which(answers, only=only)}",
    )


class _Questions:
    """Settles each point from its flag, or by asking until the answer is right."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.stacks = stack.names(context.project)

    def settle(self, flag: str, given: str | None, question: str, default: str, check: Callable[[str], T]) -> T:
        """Return the checked value of ``flag``; a default serves where nobody can be asked."""
        console = self._context.console
        if given is not None or not console.interactive:
            return check(given or default)
        while True:
            try:
                return check(console.ask(question, default))
            except IronleaseError as error:
                if error.code == "no-answer":
                    raise
                # The question follows again, so the command to run next would only be in the way.
                console.note(f"{error.found} {error.needed}")

    def name(self, name: str) -> str:
        """Return ``name`` if an inventory of that name can be made."""
        if not _NAME.fullmatch(name):
            raise _wrong("name", name, "A name of small letters, digits, dashes and underscores.")
        if (self._context.project.inventories / name).exists():
            raise UsageError(
                code="inventory-exists",
                found=f"inventories/{name} is there already.",
                needed="Another name: nothing is overwritten.",
                next_step=f"Edit inventories/{name}, or run invoke init --name {name}-2",
            )
        return name

    def stack(self, name: str) -> str:
        """Return ``name`` if it is a stack."""
        if name not in self.stacks:
            raise _wrong("stack", name, f"A stack; {suggest.did_you_mean(name, self.stacks)}")
        return name


def parse_hosts(text: str) -> dict[str, str]:
    """Return names and addresses of ``NAME=ADDRESS,...``; raise UsageError for what is none."""
    hosts: dict[str, str] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        name, equals, address = part.partition("=")
        if not equals or not _HOST_NAME.fullmatch(name) or not _is_address(address):
            raise _wrong("host", part, "NAME=ADDRESS, such as node1=203.0.113.11.")
        if name in hosts:
            raise _wrong("host", part, f"Another name: {name} is there already.")
        hosts[name] = address
    if not hosts:
        raise UsageError(
            code="no-host",
            found="No host was named.",
            needed="At least one, as NAME=ADDRESS.",
            next_step="invoke init --host node1=203.0.113.11",
        )
    return hosts


def render(answers: Answers, *, only: bool) -> str:
    """Return the inventory's text; ``only`` says that it is the user's only one and need not be named in commands."""
    port = f", ansible_port: {answers.port}" if answers.port else ""
    hosts = "".join(f'    {name}: {{ansible_host: "{address}"{port}}}\n' for name, address in answers.hosts.items())
    lease = _LEASE.format(ends_at=answers.lease_ends) if answers.lease_ends else _NO_LEASE
    variables = _VARIABLES.format(user=answers.user, stack=answers.stack, lease=lease.rstrip("\n"))
    return _HEAD.format(which=_which(answers, only=only)) + hosts + variables


def _which(answers: Answers, *, only: bool) -> str:
    """Return the flags that name the first host in a command."""
    return f"--host {next(iter(answers.hosts))}" + ("" if only else f" --inventory {answers.name}")


def _write(folder: Path, text: str) -> Path:
    """Write the inventory into a new folder, after its own validation has accepted it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=folder.parent))
    try:
        files.write_atomically(draft / "hosts.yml", text, mode=0o644)
        draft.chmod(0o755)
        inventory.load(draft)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return folder / "hosts.yml"


def _user(user: str) -> str:
    if not _USER.fullmatch(user):
        raise _wrong("user", user, "The name of a login, such as root or ubuntu.")
    return user


def _port(port: int | None) -> int | None:
    if port is not None and not 0 < port < 2**16:
        raise _wrong("port", str(port), "A port from 1 to 65535.")
    return port


def _lease_ends(text: str) -> str | None:
    if not text:
        return None
    try:
        lease = schema.validate({"ends_at": text}, Lease, schema.Source("--lease-ends"))
    except UsageError as error:
        raise UsageError(
            code=error.code,
            found=error.found,
            needed=error.needed,
            next_step="invoke init --lease-ends 2026-12-31T18:00:00+08:00",
        ) from error
    return lease.ends_at.isoformat()


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        # All digits and dots, but no address: a typing mistake, not a name.
        return bool(_HOST_NAME.fullmatch(text)) and not re.fullmatch(r"[0-9.]+", text)
    return True


def _wrong(flag: str, value: str, needed: str) -> UsageError:
    return UsageError(
        code="bad-value",
        found=f"--{flag} was given {value!r}." if value else f"--{flag} was not given.",
        needed=needed,
        next_step="invoke init --help",
    )
