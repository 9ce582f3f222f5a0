"""Where our things lie on a host: what the roles write, the probe looks for, and the plan announces."""

from __future__ import annotations

OPT = "/opt/ironlease"
ENVIRONMENTS = f"{OPT}/envs"
# Made before the first change of ours: the seller's state is saved there.
STATE = "/var/lib/ironlease"
AGENT_FILES = (f"{OPT}/node/agent.pyz", "/usr/local/bin/ironlease-node", "/etc/ironlease/node.json")
LIMITS_FILE = "/etc/security/limits.d/90-ironlease.conf"
SERVICE_LIMITS_FILE = "/etc/systemd/system.conf.d/90-ironlease.conf"
SYSCTL_FILE = "/etc/sysctl.d/90-ironlease.conf"
SHM_UNIT = "ironlease-shm.service"
SHM_FILE = f"/etc/systemd/system/{SHM_UNIT}"

TRACES = (OPT, STATE, "/etc/ironlease", *AGENT_FILES, LIMITS_FILE, SERVICE_LIMITS_FILE, SYSCTL_FILE, SHM_FILE)
