"""Packs the host side into its one file, ``agent.pyz``: the same bytes for the same sources, whenever it is built.

The host keeps the file under its SHA-256, so a difference in a timestamp would send it again to every host.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import ironlease_node
from ironlease import files

# `python3 agent.pyz` needs no first line, but `./agent.pyz` does.
FIRST_LINE = b"#!/usr/bin/python3\n"
# The earliest time that the zip format can hold.
TIMESTAMP = (1980, 1, 1, 0, 0, 0)
# Regular file, rw-r--r--, in the upper half of a zip entry's external attributes.
ATTRIBUTES = 0o100644 << 16
# "Made on Unix", or the attributes would not be read.
UNIX = 3

MAIN = b"""import sys

from ironlease_node.__main__ import main

sys.exit(main())
"""


def build(destination: Path, package: Path | None = None) -> str:
    """Write the archive to ``destination`` in one step and return its SHA-256.

    ``package`` is the folder of ``ironlease_node``; by default the one that this process would import.
    """
    data = archive(package or Path(ironlease_node.__file__).parent)
    digest = hashlib.sha256(data).hexdigest()
    if not destination.is_file() or destination.read_bytes() != data:
        files.write_atomically(destination, data, mode=0o644)
    return digest


def archive(package: Path) -> bytes:
    """Return the archive's bytes: a zip with a first line in front, entries sorted by name."""
    entries = {"__main__.py": MAIN}
    for path in package.rglob("*.py"):
        entries[f"{package.name}/{path.relative_to(package).as_posix()}"] = path.read_bytes()
    buffer = io.BytesIO()
    buffer.write(FIRST_LINE)
    with zipfile.ZipFile(buffer, "a", compression=zipfile.ZIP_DEFLATED) as target:
        for name in sorted(entries):
            information = zipfile.ZipInfo(name, TIMESTAMP)
            information.compress_type = zipfile.ZIP_DEFLATED
            information.external_attr = ATTRIBUTES
            information.create_system = UNIX
            target.writestr(information, entries[name], compresslevel=9)
    return buffer.getvalue()
