"""Remembers, on the control side, how the last provisioning of each host ended."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ironlease import files
from ironlease.paths import Project

SCHEMA = "ironlease.provision-record/1"


def keep(project: Project, host: str, *, address: str, stack: str, verdict: str, run_dir: str) -> None:
    """Keep the end of a provisioning that just ended. ``address`` is the name under which the host's key is pinned."""
    document = {
        "schema": SCHEMA,
        "host": host,
        "address": address,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "stack": stack,
        "verdict": verdict,
        "run_dir": run_dir,
    }
    files.write_json(project.host_state(host) / "provision.json", document)


def load(project: Project, host: str, address: str) -> dict[str, Any] | None:
    """Return the record of the last provisioning, or None when there was none.

    A host of the same name at another address, as in another inventory, was not the one that was provisioned.
    """
    record = files.read_document(project.host_state(host) / "provision.json", SCHEMA)
    return record if record is not None and record.get("address") == address else None
