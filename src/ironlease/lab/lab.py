"""The lab as the rest of ironlease sees it: bring hosts up, list them, reset them, take everything down."""

from __future__ import annotations

import contextlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from ironlease.errors import UsageError
from ironlease.files import private_folder, read_json
from ironlease.lab import base, connect, preconditions
from ironlease.lab.cgroups import ROOT_NAME, ControlGroup, unified_mount
from ironlease.lab.clients import LabClients
from ironlease.lab.disk import check_space, remove_tree
from ironlease.lab.errors import LabError
from ironlease.lab.host import Host, Machine
from ironlease.lab.inheritance import Inheritance, read_inheritance
from ironlease.lab.instance import CACHE_ROOT, DATA_ROOT, Instance
from ironlease.lab.inventory import read_lab_hosts
from ironlease.lab.keys import KNOWN_HOSTS, LOGIN_KEY, ensure_keys, known_host_key
from ironlease.lab.layers import Layers
from ironlease.lab.locks import exclusive
from ironlease.lab.mounts import mounted_at_or_below
from ironlease.lab.network import Network
from ironlease.lab.processes import run
from ironlease.lab.readiness import wait_for_ssh
from ironlease.paths import Project
from ironlease.suggest import did_you_mean

LOCK_SECONDS = base.BUILD_SECONDS + 60.0
SSH_SECONDS = 90.0
_POWER_OFF_SECONDS = 60.0
_HOST_BYTES = 512 * 1024**2
_CLEARING_ROUNDS = 5


@dataclass(frozen=True)
class LabHost:
    """One line of ``lab.list``. ``state`` is ``running``, ``off`` (its files are kept) or ``absent``."""

    name: str
    address: str
    state: str
    booted_since: datetime | None
    profile: str | None = None
    simulated: bool = False


def _silent(_: str) -> None:
    pass


class Lab:
    """The lab of one instance.

    ``hosts`` maps each host's name to its address; ``progress`` gets one line for each thing that takes a while.
    """

    def __init__(self, instance: Instance, hosts: dict[str, str], progress: Callable[[str], None] = _silent) -> None:
        self.instance = instance
        self.hosts = hosts
        self.progress = progress

    @classmethod
    def here(cls, project: Project, progress: Callable[[str], None] = _silent) -> Lab:
        """Return the lab of this checkout, or the one that ``IRONLEASE_LAB`` names."""
        hosts = read_lab_hosts(project.inventories / "lab" / "hosts.yml")
        return cls(Instance.of_checkout(project.root), hosts, progress)

    def is_lab_host(self, name: str) -> bool:
        """Return whether ``name`` is a host of the lab inventory, up or not."""
        return name in self.hosts

    def list(self) -> Sequence[LabHost]:
        """Return the state of every lab host; changes nothing. What other users cannot see takes root."""
        try:
            return [self._describe(host) for host in map(self._host, self.hosts)]
        except PermissionError:
            preconditions.check(only_to_end=True)
            raise

    def up(
        self, hosts: Sequence[str] | None = None, *, route_out: bool | None = None, layer: str | None = None
    ) -> None:
        """Bring up ``hosts`` (None: all) and return when each answers over SSH; running ones stay as they are.

        A host that was switched off goes on from its own files; a new one starts from the base, or from a ``layer``
        that ``save_layer`` made. ``route_out=False`` starts hosts that reach each other and nothing else; with None a
        host has what it had before, and a new one has a way out.
        Raises LabError, LabUnavailableError, or UsageError for a name that is not in the inventory.
        """
        chosen = self._known(hosts)
        preconditions.check()
        with self._locked():
            wanted = [self._host(name) for name in chosen]
            asleep = [host for host in wanted if not (host.is_running and self._is_whole(host))]
            if asleep:
                self._stop(asleep)
                self._boot(asleep, fresh=False, route_out=route_out, layer=layer)
            # Also those that a command started which was killed before they answered. One that has answered stays
            # as it is, even with its sshd broken since: what it needs is for the caller to find out.
            self._wait([host for host in wanted if not host.has_answered])

    def reset(
        self, hosts: Sequence[str] | None = None, *, route_out: bool | None = None, layer: str | None = None
    ) -> None:
        """Throw away what ``hosts`` (None: all that exist) have written, and boot them fresh."""
        chosen = self._known(hosts) if hosts is not None else [h.name for h in self.list() if h.state != "absent"]
        preconditions.check()
        with self._locked():
            selected = [self._host(name) for name in chosen]
            self._stop(selected)
            if selected:
                self._boot(selected, fresh=True, route_out=route_out, layer=layer)
                self._wait(selected)

    def down(self, hosts: Sequence[str] | None = None, *, purge: bool = False) -> None:
        """Remove ``hosts``; with None everything that belongs to the instance, whatever state it is in.

        ``purge`` also removes the cached bases that no lab on this computer uses, and the keys when no lab is left.
        """
        chosen = None if hosts is None else self._known(hosts)
        preconditions.check(only_to_end=True)
        with self._locked():
            if chosen is None:
                self._remove_everything()
            else:
                selected = [self._host(name) for name in chosen]
                self._stop(selected)
                for host in selected:
                    host.discard()
        if purge:
            self._purge()
        for empty in (self._group.path.parent, DATA_ROOT):
            with contextlib.suppress(OSError):  # other labs are still there
                empty.rmdir()

    def power_cut(self, host: str) -> None:
        """Take the power from ``host``: it falls silent in the middle of what it does. Its files stay."""
        selected = self._host(self._known([host])[0])
        with self._locked():
            self._network.unplug(selected.address)
            selected.kill()

    def power_on(self, host: str) -> None:
        """Boot ``host`` again from its own files and return when it answers over SSH."""
        self.up([host])

    def save_layer(self, host: str, name: str) -> None:
        """Keep what ``host`` has written as the layer ``name``, from which other hosts can start at once.

        The host is shut down in an orderly way first and stays off; it goes on above its own layer. Layers end with
        the lab.
        """
        selected = self._host(self._known([host])[0])
        with self._locked():
            self._shut_down(selected)
            self._layers.save(selected, name)

    def host_key(self) -> str:
        """Return the public key that every lab host shows, as ``ssh-ed25519 AAAA...``."""
        return known_host_key() or ensure_keys().host_public

    def ssh_command(self, host: str) -> Sequence[str]:
        """Return the command that opens a shell on ``host``; add a remote command to run just that."""
        address = self.hosts[self._known([host])[0]]
        script = Path(connect.__file__)
        options = {
            "ProxyCommand": f'"{sys.executable}" -IS "{script}" {self.instance.namespace} %h %p',
            "ProxyUseFdpass": "yes",
            "IdentityFile": str(LOGIN_KEY),
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(KNOWN_HOSTS),
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": "15",
            "LogLevel": "ERROR",
        }
        words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        return ["ssh", "-F", "none", *words, f"root@{address}"]

    def run_inside(
        self, host: str, argv: Sequence[str], *, limit_seconds: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Run ``argv`` inside ``host`` without SSH, for tests. Raises LabError when the host is not running."""
        process = self._host(self._known([host])[0]).first_process()
        if process is None:
            raise LabError(
                code="lab-host-off",
                found=f"The lab host {host} is not running.",
                needed="A host that is up.",
                next_step=f"invoke lab.up --host {host}",
                host=host,
            )
        return subprocess.run(
            ["nsenter", f"--target={process}", "--all", "--", *argv],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_seconds,
            check=False,
        )

    @cached_property
    def _group(self) -> ControlGroup:
        return ControlGroup(unified_mount(), f"{ROOT_NAME}/{self.instance.name}")

    @cached_property
    def _network(self) -> Network:
        return Network(self.instance, self._group.child("network"))

    @cached_property
    def _layers(self) -> Layers:
        return Layers(self.instance)

    def _host(self, name: str) -> Host:
        return Host(self.instance, self._group, name, self.hosts[name])

    def _known(self, hosts: Sequence[str] | None) -> Sequence[str]:
        chosen = list(self.hosts) if hosts is None else list(dict.fromkeys(hosts))
        unknown = [name for name in chosen if name not in self.hosts]
        if unknown:
            raise UsageError(
                code="unknown-host",
                found=f"No lab host is called {', '.join(unknown)}.",
                needed=f"A host of inventories/lab; {did_you_mean(unknown[0], self.hosts)}",
                next_step="invoke lab.list",
            )
        return chosen

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with exclusive(self.instance.lock_file, LOCK_SECONDS, self.progress):
            yield

    def _describe(self, host: Host) -> LabHost:
        state = "running" if host.is_running else "off" if host.machine() else "absent"
        return LabHost(host.name, host.address, state, host.booted_since())

    def _boot(self, hosts: Sequence[Host], *, fresh: bool, route_out: bool | None, layer: str | None) -> None:
        inheritance = read_inheritance()
        private_folder(self.instance.ssh_sockets)
        private_folder(self.instance.data_dir)
        self._network.start(inheritance.web_ports)
        if missing := [host for host in hosts if fresh or not self._is_whole(host)]:
            for host in missing:
                if host.folder.exists() and not fresh:
                    self.progress(f"{host.name}: its files are incomplete, or their base was removed; it starts fresh")
            with exclusive(base.CACHE_LOCK, LOCK_SECONDS, self.progress):
                self._create(missing, inheritance, layer)
        for host in hosts:
            if route_out is not None:
                host.remember_route_out(route_out)
            self._network.attach(host.name, host.address, route_out=host.existing_machine().route_out)
            host.start(self._lower_folders(host))

    def _wait(self, hosts: Sequence[Host]) -> None:
        if not hosts:
            return
        started = time.monotonic()
        wait_for_ssh(self.instance.namespace, hosts, SSH_SECONDS)
        for host in hosts:
            host.note_answer()
        self.progress(f"up: {', '.join(host.name for host in hosts)} ({time.monotonic() - started:.1f} s)")

    def _is_whole(self, host: Host) -> bool:
        machine = host.machine()
        return machine is not None and base.base_folder(machine.base).is_dir()

    def _create(self, hosts: Sequence[Host], inheritance: Inheritance, layer: str | None) -> None:
        for note in inheritance.notes:
            self.progress(f"note: {note}")
        check_space(self.instance.data_dir, _HOST_BYTES * len(hosts), f"{len(hosts)} lab hosts")
        keys = ensure_keys()
        if layer is None:
            recipe = base.recipe_for(inheritance, platform.freedesktop_os_release())
            base.ensure_base(recipe, self._group.child("build"), self.instance.name, self.progress)
            machine = Machine(recipe.digest, [], inheritance.bind_read_only, route_out=True)
        else:
            machine = self._layers.machine_on(layer)
        for host in hosts:
            host.create(machine, base.base_folder(machine.base), inheritance.host_files, keys)

    def _lower_folders(self, host: Host) -> Sequence[Path]:
        machine = host.existing_machine()
        return [*map(self._layers.folder, machine.layers), base.base_folder(machine.base)]

    def _stop(self, hosts: Iterable[Host]) -> None:
        for host in hosts:
            if host.is_running:
                self.progress(f"taking {host.name} down")
            host.kill()
            self._network.detach(host.name, host.address)

    def _shut_down(self, host: Host) -> None:
        if host.is_running:
            self.run_inside(host.name, ["systemctl", "poweroff"])
        deadline = time.monotonic() + _POWER_OFF_SECONDS
        while host.is_running:
            if time.monotonic() > deadline:
                host.kill()
            time.sleep(0.05)

    def _remove_everything(self) -> None:
        # The start orders first: what has not started yet must not start any more.
        remove_tree(self.instance.run_dir / "hosts")
        clients = LabClients(self.instance.namespace)
        self._group.kill()
        self._group.remove()
        clients.end()
        base.discard_unfinished(self.instance.name)
        self._clear_run_dir()
        remove_tree(self.instance.data_dir)

    def _clear_run_dir(self) -> None:
        """Unmount and remove; a command that a killed `up` had just started may bind one more namespace meanwhile."""
        for _ in range(_CLEARING_ROUNDS):
            for point in mounted_at_or_below(self.instance.run_dir):
                run(["umount", "--lazy", str(point)])
            with contextlib.suppress(LabError):
                return remove_tree(self.instance.run_dir)
            time.sleep(0.1)
        return remove_tree(self.instance.run_dir)

    def _purge(self) -> None:
        with exclusive(base.CACHE_LOCK, LOCK_SECONDS, self.progress):
            base.remove_unused_bases(_bases_in_use(), self.progress)
            if not any(DATA_ROOT.glob("*")):
                remove_tree(CACHE_ROOT)


def _bases_in_use() -> set[str]:
    """Return the bases below all hosts of all labs on this computer, those of other versions of this program included.

    Hence not through ``Machine``, which knows the record of this version alone.
    """
    used = set()
    for path in DATA_ROOT.glob("*/hosts/*/machine.json"):
        with contextlib.suppress(FileNotFoundError, ValueError):  # removed meanwhile, or half a host
            used.add(str(read_json(path).get("base")))
    return used
