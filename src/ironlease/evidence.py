"""Keeps the proof that a host trains, together with the digest of the manifest that it proves.

The proof is good as long as the same machine reports the same manifest and would train the same way: another kernel,
driver, package or interpreter gives another digest, another machine under the same name another identity, and the
training is run again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ironlease import files
from ironlease.paths import Project

SCHEMA = "ironlease.evidence/1"


@dataclass(frozen=True)
class Subject:
    """What a proof is about: which machine, in which state, and the training that was asked for.

    ``manifest_digest`` and ``machine`` are None where the host could not tell; such a subject is never proved.
    """

    manifest_digest: str | None
    machine: str | None
    request: dict[str, Any]


def path_of(project: Project, host: str) -> Path:
    """Return where the evidence for ``host`` is kept."""
    return project.host_state(host) / "evidence.json"


def load(project: Project, host: str, subject: Subject) -> dict[str, Any] | None:
    """Return the passed proof of exactly this subject, or None when the training has to be run.

    A manifest of which a part is not known has no digest, and a machine without an identity may be any other: nothing
    can be proved for them.
    """
    if subject.manifest_digest is None or subject.machine is None:
        return None
    document = files.read_document(path_of(project, host), SCHEMA)
    proves = (
        document is not None
        and all(document.get(name) == value for name, value in asdict(subject).items())
        and document.get("baseline", {}).get("verdict") == "pass"
    )
    return document if proves else None


def keep(project: Project, host: str, subject: Subject, baseline: dict[str, Any]) -> dict[str, Any]:
    """Keep what a training run showed, whether it passed or not, and return the kept document."""
    document = {
        "schema": SCHEMA,
        "host": host,
        **asdict(subject),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "baseline": baseline,
    }
    files.write_json(path_of(project, host), document)
    return document
