"""Room on disks, and the removal of folders that hold a whole system."""

from __future__ import annotations

import shutil
from pathlib import Path

from ironlease.lab.errors import LabError, LabUnavailableError


def check_space(folder: Path, needed_bytes: int, purpose: str) -> None:
    """Raise LabUnavailableError when the file system of ``folder`` has less than ``needed_bytes`` left."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        raise LabUnavailableError(
            code="lab-disk-full",
            found=f"{free_bytes / 1024**3:.1f} GiB free at {folder}.",
            needed=f"{needed_bytes / 1024**3:.1f} GiB for {purpose}.",
            next_step="invoke lab.down --purge",
        )


def remove_tree(folder: Path) -> None:
    """Remove ``folder`` with all below; nothing happens where there is none. Raises LabError, naming what stays."""
    if not folder.exists():
        return
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise LabError(
            code="lab-cannot-remove",
            found=f"{error.filename} cannot be removed: {error.strerror}.",
            needed="An ordinary folder, with no immutable file in it.",
            next_step=f"chattr -R -f -i {folder}; invoke lab.down",
        ) from error
