"""What will be touched on the host, compared with what the probe saw there."""

from __future__ import annotations

from typing import Any, Literal

from ironlease.plan.case import OPT, Case
from ironlease.plan.model import Change

State = Literal["new", "compare"]
# The files that the roles write whatever the plan says; a contract test compares them with the roles.
AGENT_FILES = (f"{OPT}/node/agent.pyz", "/usr/local/bin/ironlease-node", "/etc/ironlease/node.json")
LIMITS_FILE = "/etc/security/limits.d/90-ironlease.conf"
SERVICE_LIMITS_FILE = "/etc/systemd/system.conf.d/90-ironlease.conf"
SYSCTL_FILE = "/etc/sysctl.d/90-ironlease.conf"
SHM_UNIT = "ironlease-shm.service"
SHM_FILE = f"/etc/systemd/system/{SHM_UNIT}"


def expected(case: Case, values: dict[str, dict[str, Any]]) -> list[Change]:
    """Return the expected changes for the roles' ``values``: packages, user, files, services, environment."""
    base, tuning = values["host_base"], values["node_tuning"]
    time_sync = base["time_sync"]
    wanted = sorted({*base["packages"], time_sync["package"]})
    absent = [name for name in wanted if name not in case.packages]
    on_host: State = "compare" if case.was_provisioned else "new"
    return [
        *(Change(kind="package", what=name, role="host_base", state="new") for name in absent),
        Change(kind="user", what=base["user"], role="host_base", state="compare"),
        Change(
            kind="service",
            what=time_sync["unit"],
            role="host_base",
            state="new" if time_sync["package"] in absent else "compare",
        ),
        *(Change(kind="file", what=path, role="node_tuning", state=on_host) for path in _tuning_files(tuning)),
        *_shm(tuning, on_host),
        Change(kind="environment", what=values["pytorch"]["environment"], role="pytorch", state=on_host),
        *(Change(kind="file", what=path, role="node_agent", state=on_host) for path in AGENT_FILES),
    ]


def _tuning_files(tuning: dict[str, Any]) -> list[str]:
    limits = tuning["limits"]
    files = [LIMITS_FILE] if any(limits.values()) else []
    files += [SERVICE_LIMITS_FILE] if limits["memlock"] == "unlimited" else []
    return files + ([SYSCTL_FILE] if tuning["sysctl"] else [])


def _shm(tuning: dict[str, Any], state: State) -> list[Change]:
    if tuning["shm_size"] is None:
        return []
    return [
        Change(kind="file", what=SHM_FILE, role="node_tuning", state=state),
        Change(kind="service", what=SHM_UNIT, role="node_tuning", state=state),
    ]
