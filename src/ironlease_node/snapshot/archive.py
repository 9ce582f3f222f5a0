"""A tar of /etc as it was, without secrets."""

from __future__ import annotations

import io
import os
import stat
import tarfile
from pathlib import Path
from typing import BinaryIO

from ironlease_node.host import Host
from ironlease_node.snapshot import secrets

TOP = "/etc"
# Configuration is small. What is larger is generated (udev's hardware database) and can be made again.
LARGEST_FILE_BYTES = 4 * 1024 * 1024
COMPRESSION_LEVEL = 6


def write(host: Host, target: BinaryIO) -> dict[str, str]:
    """Write the gzipped tar to ``target``; return what was left out, as `{path: reason}`.

    Raises OSError when ``target`` cannot take it.
    """
    left_out: dict[str, str] = {}
    top = host.path(TOP)
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=COMPRESSION_LEVEL, format=tarfile.PAX_FORMAT) as tar:
        for path in _paths(top):
            reason = _add(tar, path, path.relative_to(top).as_posix())
            if reason is not None:
                left_out[f"{TOP}/{path.relative_to(top).as_posix()}"] = reason
    return left_out


def _paths(top: Path) -> list[Path]:
    found = []
    # Links to folders are links here: os.walk does not follow them.
    for folder, folders, names in os.walk(top):
        found += [Path(folder, name) for name in (*folders, *names)]
    return sorted(found)


def _add(tar: tarfile.TarFile, path: Path, name: str) -> str | None:
    """Add one entry; return why it was left out, or None."""
    try:
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            return _add_file(tar, path, name, status)
        if not (stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
            return "it is a device, a pipe or a socket"
        entry = tar.gettarinfo(str(path), arcname=f"etc/{name}")
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    tar.addfile(entry)
    return None


def _add_file(tar: tarfile.TarFile, path: Path, name: str, status: os.stat_result) -> str | None:
    if status.st_size > LARGEST_FILE_BYTES:
        return f"it is larger than {LARGEST_FILE_BYTES} bytes"
    reason = secrets.reason_by_path(name)
    if reason is not None:
        return reason
    # Read once: what is judged is what is kept, even when somebody changes the file at this moment.
    data = path.read_bytes()
    reason = secrets.reason_by_content(name, data)
    if reason is None:
        entry = tar.gettarinfo(str(path), arcname=f"etc/{name}")
        # A second name of one file is kept as a file of its own.
        entry.type = tarfile.REGTYPE
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return reason
