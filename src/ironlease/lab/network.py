"""The lab's network: a bridge in a network namespace of its own, one namespace for each host, one way out.

On the computer itself nothing is configured: no interface, no address, no firewall rule, no forwarding switch. All of
these exist inside the lab's namespace and end with it. The way out is slirp4netns, an ordinary process that opens
ordinary connections on behalf of the lab, so there is nothing to restore afterwards.

The namespaces are bound to files below the instance's folder in /run rather than made with ``ip netns add``, which
would leave /run/netns mounted on the computer for good.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import select
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ironlease.lab.cgroups import ControlGroup
from ironlease.lab.errors import LabError
from ironlease.lab.instance import Instance
from ironlease.lab.mounts import is_mount_point, mounted_at_or_below
from ironlease.lab.processes import in_network, last_lines, run

SUBNET = ipaddress.IPv4Network("10.77.0.0/24")
GATEWAY = ipaddress.IPv4Address("10.77.0.1")
# slirp4netns' own addresses; its default, 10.0.2.0/24, is a network that people do have.
_UPLINK_SUBNET = "10.77.255.0/24"
UPLINK_RESOLVER = "10.77.255.3"
_READY_SECONDS = 10.0
_DNS_PORT = 53


@dataclass(frozen=True)
class Network:
    """The network of one instance."""

    instance: Instance
    group: ControlGroup
    web_ports: frozenset[int]

    def start(self) -> None:
        """Make the bridge, and the way out, unless they are there."""
        namespace = self.instance.namespace
        if not _is_complete(namespace):
            unbind(namespace)
            _bind_new(namespace)
            _ip(namespace, "link set lo up", "link add br0 type bridge", f"addr add {GATEWAY}/24 dev br0", "link set br0 up")
        if not self.group.processes():
            self._open_way_out()

    def attach(self, host: str, address: str, *, route_out: bool) -> None:
        """Give ``host`` a new namespace with ``address``, plugged into the bridge."""
        port = port_name(address)
        own = self.instance.host_namespace(host)
        self.detach(host, address)
        _bind_new(own)
        # The far end is born inside the host's namespace: no interface ever shows up on the computer itself.
        _ip(
            self.instance.namespace,
            f"link add {port} type veth peer name host0 netns {own}",
            f"link set {port} master br0 up",
        )
        lines = ["link set lo up", f"addr add {address}/24 dev host0", "link set host0 up"]
        _ip(own, *lines, *([f"route add default via {GATEWAY}"] if route_out else []))
        element = f"element inet lab routed {{ {address} }}"
        # `add` first: deleting an element that is not there is an error.
        rules = f"add {element}\n" + ("" if route_out else f"delete {element}\n")
        run(in_network(self.instance.namespace, ["nft", "-f", "-"]), stdin=rules)

    def detach(self, host: str, address: str) -> None:
        """Remove the host's namespace and its port on the bridge, where they are."""
        unbind(self.instance.host_namespace(host))
        if is_mount_point(self.instance.namespace):
            with contextlib.suppress(LabError):  # there is no such port: what we want
                _ip(self.instance.namespace, f"link del {port_name(address)}")

    def unplug(self, address: str) -> None:
        """Cut the cable: nothing that the host sends arrives any more, not even the end of its connections."""
        _ip(self.instance.namespace, f"link set {port_name(address)} down")

    def _open_way_out(self) -> None:
        namespace = self.instance.namespace
        run(in_network(namespace, ["nft", "-f", "-"]), stdin=firewall_rules(self.web_ports))
        run(in_network(namespace, ["tee", "/proc/sys/net/ipv4/ip_forward"]), stdin="1\n")
        self.group.create()
        log = self.instance.run_dir / "slirp4netns.log"
        ready_read, ready_write = os.pipe()
        try:
            argv = slirp_command(namespace, ready_write)
            with log.open("wb") as output:
                subprocess.run(
                    ["setsid", "--fork", *self.group.joining(argv)],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    pass_fds=(ready_write,),
                    timeout=_READY_SECONDS,
                    check=True,
                )
            os.close(ready_write)
            ready_write = -1
            _wait_ready(ready_read, log)
        finally:
            os.close(ready_read)
            if ready_write >= 0:
                os.close(ready_write)


def slirp_command(namespace: Path, ready_descriptor: int) -> list[str]:
    """Return the command that gives the namespace its way out."""
    return [
        "slirp4netns",
        "--configure",
        "--mtu=65520",
        "--disable-host-loopback",
        f"--cidr={_UPLINK_SUBNET}",
        f"--ready-fd={ready_descriptor}",
        "--netns-type=path",
        str(namespace),
        "tap0",
    ]


def firewall_rules(web_ports: frozenset[int]) -> str:
    """Return the rules, for the lab's own namespace, of what may leave the lab.

    Names and web servers only: a provisioning run that went astray cannot log in to a real machine from here.
    """
    ports = ", ".join(str(port) for port in sorted(web_ports))
    return f"""
add table inet lab
delete table inet lab
table inet lab {{
  set routed {{ type ipv4_addr; }}
  chain forward {{
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    iifname "br0" oifname "tap0" ip saddr @routed udp dport {_DNS_PORT} accept
    iifname "br0" oifname "tap0" ip saddr @routed tcp dport {{ {_DNS_PORT}, {ports} }} accept
    reject with icmpx admin-prohibited
  }}
  chain way_out {{
    type nat hook postrouting priority srcnat;
    oifname "tap0" masquerade
  }}
}}
"""


def port_name(address: str) -> str:
    """Return the bridge port of the host at ``address``; interface names have 15 characters at most."""
    return f"port{address.rsplit('.', 1)[1]}"


def client_processes(instance: Instance) -> list[int]:
    """Return the ``ssh`` processes of this computer that hold a connection into the lab.

    OpenSSH's connection masters stay for a minute after the last command; they end with the lab.
    """
    if not is_mount_point(instance.namespace):
        return []
    table = run(in_network(instance.namespace, ["cat", "/proc/thread-self/net/tcp"]))
    sockets = {f"socket:[{line.split()[9]}]" for line in table.splitlines()[1:]}
    return [process for process in _processes_named("ssh") if sockets & _open_descriptors(process)]


def unbind(namespace: Path) -> None:
    """Let go of a namespace: the last user's end is its own."""
    for point in mounted_at_or_below(namespace):
        run(["umount", "--lazy", str(point)])
    namespace.unlink(missing_ok=True)


def _bind_new(namespace: Path) -> None:
    namespace.parent.mkdir(parents=True, exist_ok=True)
    namespace.touch()
    run(["unshare", f"--net={namespace}", "true"])


def _is_complete(namespace: Path) -> bool:
    """Return whether the bridge is up: a killed process may have left half of the network."""
    if not is_mount_point(namespace):
        return False
    try:
        return bool(re.search(r"\bstate (UP|DOWN|UNKNOWN)\b", _show_bridge(namespace)))
    except LabError:
        return False


def _show_bridge(namespace: Path) -> str:
    return run(in_network(namespace, ["ip", "link", "show", "br0", "up"]))


def _ip(namespace: Path, *lines: str) -> None:
    run(in_network(namespace, ["ip", "-batch", "-"]), stdin="\n".join(lines) + "\n")


def _wait_ready(descriptor: int, log: Path) -> None:
    readable, _, _ = select.select([descriptor], [], [], _READY_SECONDS)
    if readable and os.read(descriptor, 1):
        return
    raise LabError(
        code="lab-no-way-out",
        found=f"slirp4netns did not start: {last_lines(log.read_text(errors='replace')) or 'it said nothing'}",
        needed="a way out of the lab for package sources (or hosts without one: --no-route-out)",
        next_step="./invoke lab.down, then ./invoke lab.up",
    )


def _processes_named(name: str) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "comm").read_text(encoding="utf-8", errors="replace").strip() == name:
                found.append(int(folder.name))
    return found


def _open_descriptors(process: int) -> set[str]:
    links = set()
    for descriptor in Path(f"/proc/{process}/fd").glob("*"):
        with contextlib.suppress(OSError):
            links.add(str(descriptor.readlink()))
    return links
