"""What a Python environment reports to hold, without importing anything of it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from ironlease_node import environment
from ironlease_node.host import Unreadable
from ironlease_node.text import sha256_of


def describe(path: Path) -> dict[str, Any]:
    """Return interpreter, distributions and torch of the environment at ``path``.

    Raises Unreadable when it has no interpreter that works, or holds one distribution twice.
    """
    try:
        interpreter = environment.ask_interpreter(path)
    except environment.EnvironmentBrokenError as error:
        raise Unreadable(str(error)) from error
    found = environment.installed_distributions(interpreter.site_packages)
    versions: dict[str, str] = {}
    for distribution in found:
        name = environment.normalise(distribution.name)
        if name in versions:
            raise Unreadable(f"{path}: {name} is installed more than once")
        versions[name] = distribution.version
    return {
        "path": str(path),
        "python": interpreter.version,
        "distributions": dict(sorted(versions.items())),
        "torch": describe_torch(interpreter.site_packages),
        "records_sha256": records_digest([distribution.info_folder / "RECORD" for distribution in found]),
    }


def records_digest(records: list[Path]) -> str:
    """Return one SHA-256 over the RECORD files, which name each installed file with its own hash.

    Raises Unreadable when one is missing.
    """
    lines = []
    for record in sorted(records):
        try:
            lines.append(f"{record.parent.name} {sha256_of(record.read_bytes())}\n")
        except OSError as error:
            raise Unreadable(f"{record}: {error.strerror}") from error
    return sha256_of("".join(lines).encode())


def describe_torch(site_packages: list[Path]) -> dict[str, Any] | None:
    """Return torch's version and the CUDA version that it was built for, from torch/version.py; None without torch."""
    for folder in site_packages:
        path = folder / "torch" / "version.py"
        if path.is_file():
            values = assigned_literals(path.read_text(encoding="utf-8", errors="replace"))
            return {"version": values.get("__version__"), "cuda": values.get("cuda")}
    return None


def assigned_literals(source: str) -> dict[str, Any]:
    """Return the names to which a module assigns plain values, read from its text and not by running it."""
    values = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant):
                values[target.id] = node.value.value
    return values
