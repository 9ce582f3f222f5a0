"""Keeps the proof that a host trains, together with the digest of the manifest that it proves.

The proof is good as long as the host reports the same manifest: another kernel, driver, package or interpreter gives
another digest, and the training is run again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ironlease import files
from ironlease.paths import Project

SCHEMA = "ironlease.evidence/1"


def path_of(project: Project, host: str) -> Path:
    """Return where the evidence for ``host`` is kept."""
    return project.host_state(host) / "evidence.json"


def load(project: Project, host: str, manifest_digest: str | None) -> dict[str, Any] | None:
    """Return the passed proof of exactly this manifest, or None when the training has to be run.

    A manifest of which a part is not known has no digest, and nothing can be proved for it.
    """
    if manifest_digest is None:
        return None
    try:
        document = files.read_json(path_of(project, host))
    except (FileNotFoundError, ValueError):
        return None
    proves = (
        document.get("schema") == SCHEMA
        and document.get("manifest_digest") == manifest_digest
        and document.get("baseline", {}).get("verdict") == "pass"
    )
    return document if proves else None


def keep(project: Project, host: str, manifest_digest: str | None, baseline: dict[str, Any]) -> dict[str, Any]:
    """Keep what a training run showed, whether it passed or not, and return the kept document."""
    document = {
        "schema": SCHEMA,
        "host": host,
        "manifest_digest": manifest_digest,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "baseline": baseline,
    }
    files.write_json(path_of(project, host), document)
    return document
