"""What will be touched on the host, compared with what the probe saw there."""

from __future__ import annotations

from typing import Any, Literal

from ironlease.plan.case import Case
from ironlease.plan.model import Change
from ironlease_node.places import (
    AGENT_FILES,
    LIMITS_FILE,
    SERVICE_LIMITS_FILE,
    SHM_FILE,
    SHM_UNIT,
    SYSCTL_FILE,
)

State = Literal["new", "compare"]


def expected(case: Case, values: dict[str, dict[str, Any]]) -> list[Change]:
    """Return the expected changes for the roles' ``values``: packages, user, files, services, environment."""
    base, tuning = values["host_base"], values["node_tuning"]
    time_sync = base["time_sync"]
    wanted = sorted({*base["packages"], time_sync["package"]})
    absent = [name for name in wanted if name not in case.packages]

    def ours(kind: Literal["file", "environment"], path: str, role: str) -> Change:
        return Change(kind=kind, what=path, role=role, state="compare" if case.has_trace(path) else "new")

    return [
        *(Change(kind="package", what=name, role="host_base", state="new") for name in absent),
        Change(kind="user", what=base["user"], role="host_base", state="compare"),
        Change(
            kind="service",
            what=time_sync["unit"],
            role="host_base",
            state="new" if time_sync["package"] in absent else "compare",
        ),
        *(ours("file", path, "node_tuning") for path in _tuning_files(tuning)),
        *_shm_service(case, tuning),
        ours("environment", values["pytorch"]["environment"], "pytorch"),
        *(ours("file", path, "node_agent") for path in AGENT_FILES),
    ]


def _tuning_files(tuning: dict[str, Any]) -> list[str]:
    limits = tuning["limits"]
    files = [LIMITS_FILE] if any(limits.values()) else []
    files += [SERVICE_LIMITS_FILE] if limits["memlock"] == "unlimited" else []
    files += [SYSCTL_FILE] if tuning["sysctl"] else []
    return files + ([SHM_FILE] if tuning["shm_size"] is not None else [])


def _shm_service(case: Case, tuning: dict[str, Any]) -> list[Change]:
    if tuning["shm_size"] is None:
        return []
    state: State = "compare" if case.has_trace(SHM_FILE) else "new"
    return [Change(kind="service", what=SHM_UNIT, role="node_tuning", state=state)]
