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
import select
from dataclasses import dataclass
from pathlib import Path

from ironlease.lab.cgroups import ControlGroup
from ironlease.lab.errors import LabError
from ironlease.lab.instance import Instance
from ironlease.lab.mounts import is_mount_point, mounted_at_or_below
from ironlease.lab.processes import detach, in_network, last_lines, run

SUBNET = ipaddress.IPv4Network("10.77.0.0/24")
GATEWAY = ipaddress.IPv4Address("10.77.0.1")
# slirp4netns' own addresses; its default, 10.0.2.0/24, is a network that people do have.
_UPLINK_SUBNET = "10.77.255.0/24"
UPLINK_RESOLVER = "10.77.255.3"
_READY_SECONDS = 10.0

# What may leave the lab: questions to name servers and to web servers. A provisioning run that went astray cannot log
# in to a real machine from here.
_RULES = """
table inet lab {
  set routed { type ipv4_addr; }
  set web_ports { type inet_service; }
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state established,related accept
    # Host to host: frames on a bridge come by here where the kernel has br_netfilter.
    iifname "br0" oifname "br0" accept
    iifname "br0" oifname "tap0" ip saddr @routed udp dport 53 accept
    iifname "br0" oifname "tap0" ip saddr @routed tcp dport 53 accept
    iifname "br0" oifname "tap0" ip saddr @routed tcp dport @web_ports accept
    # A reset is heard at once; an ICMP answer to the first packet can be missed, and the next ones are rationed.
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }
  chain way_out {
    type nat hook postrouting priority srcnat;
    oifname "tap0" masquerade
  }
}
"""


@dataclass(frozen=True)
class Network:
    """The network of one instance; ``group`` is the control group of the process behind its way out."""

    instance: Instance
    group: ControlGroup

    @property
    def namespace(self) -> Path:
        """The namespace with the bridge."""
        return self.instance.namespace

    def start(self, web_ports: frozenset[int]) -> None:
        """Make the bridge and the way out to ``web_ports``, unless they are there."""
        if not self._is_complete():
            self._build()
        self._firewall(f"add element inet lab web_ports {{ {', '.join(map(str, sorted(web_ports)))} }}")
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
            self.namespace,
            f"link add {port} type veth peer name host0 address {mac_address(address)} netns {own}",
            f"link set {port} master br0 up",
        )
        lines = ["link set lo up", f"addr add {address}/24 dev host0", "link set host0 up"]
        _ip(own, *lines, *([f"route add default via {GATEWAY}"] if route_out else []))
        element = f"element inet lab routed {{ {address} }}"
        # Added first in any case: deleting an element that is not there is an error.
        self._firewall(f"add {element}", *([] if route_out else [f"delete {element}"]))

    def detach(self, host: str, address: str) -> None:
        """Remove the host's namespace and its port on the bridge, where they are."""
        unbind(self.instance.host_namespace(host))
        if not is_mount_point(self.namespace):
            return
        if port_name(address) in self._ports():
            # The kernel removes the port by itself once the host's namespace has ended, perhaps just now.
            with contextlib.suppress(LabError):
                _ip(self.namespace, f"link del {port_name(address)}")
        # A connection to a host that is not there ends with "no route" soon, not after its time limit.
        _ip(self.namespace, f"neigh flush to {address} dev br0")

    def unplug(self, address: str) -> None:
        """Cut the cable: nothing that the host sends arrives any more, not even the end of its connections."""
        if is_mount_point(self.namespace) and port_name(address) in self._ports():
            _ip(self.namespace, f"link set {port_name(address)} down")

    def _ports(self) -> set[str]:
        shown = run(in_network(self.namespace, ["ip", "-brief", "link", "show", "type", "veth"]))
        return {line.split("@")[0].split()[0] for line in shown.splitlines()}

    def _build(self) -> None:
        unbind(self.namespace)
        _bind_new(self.namespace)
        _ip(
            self.namespace,
            "link set lo up",
            "link add br0 type bridge",
            f"addr add {GATEWAY}/24 dev br0",
            "link set br0 up",
        )
        run(in_network(self.namespace, ["tee", "/proc/sys/net/ipv4/ip_forward"]), stdin="1\n")
        # Last, because these rules are what `_is_complete` looks for.
        self._firewall(_RULES)

    def _is_complete(self) -> bool:
        """Return whether the network was built to its end: a killed process may have left half of it."""
        if not is_mount_point(self.namespace):
            return False
        return "inet lab" in run(in_network(self.namespace, ["nft", "list", "tables"]))

    def _firewall(self, *lines: str) -> None:
        run(in_network(self.namespace, ["nft", "-f", "-"]), stdin="\n".join(lines) + "\n")

    def _open_way_out(self) -> None:
        self.group.create()
        log = self.instance.run_dir / "slirp4netns.log"
        ready_read, ready_write = os.pipe()
        try:
            argv = self.group.joining(slirp_command(self.namespace, ready_write))
            detach(argv, log, pass_descriptors=(ready_write,))
        finally:
            os.close(ready_write)
        try:
            _wait_ready(ready_read, log)
        finally:
            os.close(ready_read)


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


def port_name(address: str) -> str:
    """Return the bridge port of the host at ``address``; interface names have 15 characters at most."""
    return f"port{address.rsplit('.', 1)[1]}"


def mac_address(address: str) -> str:
    """Return the host's own hardware address, always the same: its neighbours remember it beyond a power cut."""
    return "02:00:" + ":".join(f"{int(part):02x}" for part in address.split("."))


def unbind(namespace: Path) -> None:
    """Let go of a namespace: it ends with its last user.

    Removing the file also takes the binding out of the mount tables that other labs' hosts have copied.
    """
    for point in mounted_at_or_below(namespace):
        run(["umount", "--lazy", str(point)])
    namespace.unlink(missing_ok=True)


def _bind_new(namespace: Path) -> None:
    namespace.parent.mkdir(parents=True, exist_ok=True)
    namespace.touch()
    run(["unshare", f"--net={namespace}", "true"])


def _ip(namespace: Path, *lines: str) -> None:
    run(in_network(namespace, ["ip", "-batch", "-"]), stdin="\n".join(lines) + "\n")


def _wait_ready(descriptor: int, log: Path) -> None:
    readable, _, _ = select.select([descriptor], [], [], _READY_SECONDS)
    if readable and os.read(descriptor, 1):
        return
    raise LabError(
        code="lab-no-way-out",
        found=f"slirp4netns did not start: {last_lines(log.read_text(errors='replace')) or 'it said nothing'}.",
        needed="A way out of the lab for package sources.",
        next_step="invoke lab.down",
    )
