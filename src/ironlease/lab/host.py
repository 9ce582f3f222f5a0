"""One lab host: its files, its boot, its end."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ironlease.files import read_json, write_atomically, write_json
from ironlease.lab.cgroups import ControlGroup
from ironlease.lab.disk import remove_tree
from ironlease.lab.errors import LabError
from ironlease.lab.instance import Instance
from ironlease.lab.keeper import Ticket
from ironlease.lab.keys import HOST_KEY, LabKeys
from ironlease.lab.processes import detach, last_lines

# The keeper is process 1 of a namespace of its own, so that its end, however it comes, is the end of its host. It sees
# what is unmounted on the computer later, and shows the computer nothing of what it mounts.
_OWN_NAMESPACES = [
    "unshare",
    "--mount",
    "--propagation=slave",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--",
]


@dataclass(frozen=True)
class Machine:
    """What a host was made from, and whether it may reach beyond the lab.

    Kept beside its files and written last, so that half a host has none.
    """

    base: str
    layers: list[str]
    bind_read_only: list[str]
    route_out: bool


@dataclass(frozen=True)
class Host:
    """A host of one instance, whether it exists yet or not."""

    instance: Instance
    group: ControlGroup
    name: str
    address: str

    @property
    def folder(self) -> Path:
        """The host's own files."""
        return self.instance.host_data_dir(self.name)

    @property
    def upper(self) -> Path:
        """What the host has written over its base."""
        return self.folder / "upper"

    @property
    def payload_group(self) -> ControlGroup:
        """The group of the host's own processes and of the nspawn that runs them."""
        return self.group.child(f"host-{self.name}")

    @property
    def keeper_group(self) -> ControlGroup:
        """The group of the host's keeper."""
        return self.group.child(f"keeper-{self.name}")

    @property
    def is_running(self) -> bool:
        """Whether the host is there, be it still booting or just between two boots."""
        return bool(self.keeper_group.processes())

    def machine(self) -> Machine | None:
        """Return what the host was made from, or None where there is no complete host."""
        try:
            return Machine(**read_json(self.folder / "machine.json"))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def existing_machine(self) -> Machine:
        """Return what the host was made from. Raises LabError where there is no complete host."""
        machine = self.machine()
        if machine is None:
            raise LabError(
                code="lab-no-host",
                found=f"The lab host {self.name} does not exist.",
                needed="A host that was started before.",
                next_step=f"invoke lab.up --host {self.name}",
                host=self.name,
            )
        return machine

    def create(self, machine: Machine, lower: Path, files: Mapping[str, str], keys: LabKeys) -> None:
        """Make a fresh host over the base in ``lower``; whatever was there before is gone."""
        self.discard()
        self._make_folders()
        writer = _UpperWriter(self.upper, lower)
        # Empty: the host makes an identity of its own at its first boot.
        writer.write("/etc/machine-id", "", mode=0o444)
        writer.write("/etc/hostname", f"{self.name}\n")
        writer.write("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {self.name}\n::1 localhost ip6-localhost\n")
        writer.write("/root/.ssh/authorized_keys", f"{keys.login_public}\n", mode=0o600)
        writer.write("/etc/ssh/ssh_host_ed25519_key", HOST_KEY.read_text(encoding="ascii"), mode=0o600)
        writer.write("/etc/ssh/ssh_host_ed25519_key.pub", f"{keys.host_public}\n")
        for path, content in files.items():
            writer.write(path, content)
        self._remember(machine)

    def forget(self) -> None:
        """Make the host incomplete, so that it starts fresh unless ``continue_on`` follows."""
        (self.folder / "machine.json").unlink(missing_ok=True)

    def continue_on(self, machine: Machine) -> None:
        """Give the host, whose own files became a layer of ``machine``, an empty writable layer."""
        self.discard()
        self._make_folders()
        self._remember(machine)

    def _make_folders(self) -> None:
        for name in ("upper", "work", "root"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o700)
        self.upper.chmod(0o755)

    def remember_route_out(self, allowed: bool) -> None:
        """Note, for the times that the host is switched on again, whether it may reach beyond the lab."""
        machine = self.existing_machine()
        if machine.route_out != allowed:
            self._remember(replace(machine, route_out=allowed))

    def _remember(self, machine: Machine) -> None:
        write_json(self.folder / "machine.json", asdict(machine))

    def discard(self) -> None:
        """Remove the host's files; it must have ended."""
        remove_tree(self.folder)

    def start(self, lower: Sequence[Path]) -> None:
        """Start the keeper, which boots the host; return at once."""
        machine = self.existing_machine()
        self.payload_group.remove()
        self.keeper_group.create()
        ticket = Ticket(
            machine=self.instance.machine_name(self.name),
            hostname=self.name,
            folder=str(self.folder),
            lower=[str(path) for path in lower],
            namespace=str(self.instance.host_namespace(self.name)),
            cgroup_mount=str(self.group.mount),
            host_cgroup=self.payload_group.name,
            bind_read_only=[path for path in machine.bind_read_only if Path(path).is_dir()],
        )
        self.instance.host_run_dir(self.name).mkdir(parents=True, exist_ok=True)
        self._answered_path.unlink(missing_ok=True)
        write_atomically(self._ticket_path, ticket.as_json())
        keeper = [sys.executable, "-m", "ironlease.lab.keeper", str(self._ticket_path)]
        detach(self.keeper_group.joining([*_OWN_NAMESPACES, *keeper]), self._log_path)

    @property
    def has_answered(self) -> bool:
        """Whether somebody has waited, since the host was started, until it answered over SSH."""
        return self._answered_path.exists()

    def note_answer(self) -> None:
        """Note that the host has answered over SSH."""
        self._answered_path.touch()

    def kill(self) -> None:
        """End the host at once, as if its power failed. Its files stay."""
        self._ticket_path.unlink(missing_ok=True)
        for group in (self.keeper_group, self.payload_group):
            group.kill()
            group.remove()

    def first_process(self) -> int | None:
        """Return the id, on this computer, of the host's own process 1."""
        processes = self.payload_group.child("payload/init.scope").processes()
        return min(processes) if processes else None

    def booted_since(self) -> datetime | None:
        """Return when the host booted last, in UTC; None while it is off."""
        process = self.first_process()
        return None if process is None else _started_at(process)

    def log_end(self) -> str:
        """Return the end of what the keeper and the host's console said."""
        try:
            return last_lines(self._log_path.read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return ""

    @property
    def _ticket_path(self) -> Path:
        return self.instance.host_run_dir(self.name) / "ticket.json"

    @property
    def _answered_path(self) -> Path:
        return self.instance.host_run_dir(self.name) / "answered"

    @property
    def _log_path(self) -> Path:
        return self.instance.host_run_dir(self.name) / "console.log"


class _UpperWriter:
    """Writes into the writable layer of an overlay that is not mounted.

    A folder made there hides the attributes of the same folder below, so each gets those of the lower one.
    """

    def __init__(self, upper: Path, lower: Path) -> None:
        self._upper = upper
        self._lower = lower

    def write(self, path: str, content: str, mode: int = 0o644) -> None:
        target = self._upper / path[1:]
        self._make_folder(target.parent)
        target.write_text(content, encoding="utf-8")
        target.chmod(mode)

    def _make_folder(self, folder: Path) -> None:
        if folder.exists():
            return
        self._make_folder(folder.parent)
        folder.mkdir()
        below = self._lower / folder.relative_to(self._upper)
        if below.is_dir():
            status = below.stat()
            os.chown(folder, status.st_uid, status.st_gid)
            folder.chmod(status.st_mode & 0o7777)
        else:
            folder.chmod(0o700 if folder.name == ".ssh" else 0o755)


def _started_at(process: int) -> datetime | None:
    """Field 22 of /proc/PID/stat counts clock ticks since the moment that "btime" in /proc/stat names; see proc(5)."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    ticks = int(text.rpartition(")")[2].split()[19])
    counters = dict(line.split(maxsplit=1) for line in Path("/proc/stat").read_text(encoding="ascii").splitlines())
    return datetime.fromtimestamp(int(counters["btime"]) + ticks / os.sysconf("SC_CLK_TCK"), UTC)
