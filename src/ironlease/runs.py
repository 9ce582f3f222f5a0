"""The folder that each command leaves behind: everything needed to read the run again without the hosts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ironlease import files, redact
from ironlease.paths import Project


class RunFolder:
    """``runs/<time>-<command>/``, open to its owner only; whatever is written there is scrubbed of secrets."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, project: Project, command: str) -> RunFolder:
        """Make the folder of a command that starts now; two in one second get different names."""
        files.private_folder(project.runs)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        for number in range(1, 1000):
            suffix = "" if number == 1 else f"-{number}"
            path = project.runs / f"{stamp}-{command}{suffix}"
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                continue
            return cls(path)
        raise FileExistsError(f"{project.runs}/{stamp}-{command} and 998 more")

    def write_json(self, name: str, value: Any) -> Path:
        """Write ``value`` to ``name`` (which may name sub-folders) and return the path."""
        path = self.path / name
        files.write_json(path, redact.scrub_value(value))
        return path

    def write_text(self, name: str, text: str) -> Path:
        """Write ``text`` to ``name`` and return the path."""
        path = self.path / name
        files.write_atomically(path, redact.scrub(text))
        return path

    def append_line(self, name: str, value: Any) -> None:
        """Append ``value`` as one line of JSON to ``name``."""
        path = self.path / name
        with path.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(redact.scrub_value(value), ensure_ascii=False) + "\n")
        path.chmod(0o600)


def names(project: Project) -> list[str]:
    """Return the names of the run folders, oldest first."""
    if not project.runs.is_dir():
        return []
    return sorted(entry.name for entry in project.runs.iterdir() if entry.is_dir())
