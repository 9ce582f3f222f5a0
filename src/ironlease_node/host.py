"""One machine's files, seen through a root folder: `/` on a host, a fixture tree in a test."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


class Unreadable(Exception):  # noqa: N818 - it is caught and becomes an entry in `problems`
    """A part of the answer cannot be known, with the reason in a few words."""


class Host:
    """Reads small files below ``root``. Paths are given absolute, as on the host."""

    def __init__(
        self, root: Path = Path("/"), effective_uid: int | None = None, architecture: str | None = None
    ) -> None:
        self.root = root
        self.effective_uid = os.geteuid() if effective_uid is None else effective_uid
        self.architecture = os.uname().machine if architecture is None else architecture

    @property
    def is_root(self) -> bool:
        """Whether the agent runs as root."""
        return self.effective_uid == 0

    def path(self, path: str) -> Path:
        """Return where ``path`` of the host really lies."""
        return self.root / path.lstrip("/")

    def text(self, path: str) -> str:
        """Return the file's text.

        Raises Unreadable when it is not there or may not be read.
        """
        try:
            return self.path(path).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from error

    def optional_text(self, path: str) -> str | None:
        """Return the file's text, or None when there is no such file or the kernel does not give it out.

        sysfs answers EINVAL for the speed of an interface that is down: that is no problem of the reader's.
        """
        try:
            return self.path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def line(self, path: str) -> str | None:
        """Return the file's text without white space around it, or None as :meth:`optional_text`."""
        text = self.optional_text(path)
        return None if text is None else text.strip()

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder; none when there is no such folder.

        Raises Unreadable when it may not be read.
        """
        try:
            return sorted(os.listdir(self.path(path)))  # noqa: PTH208 - names only, in folders with hundreds
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from error

    def link_name(self, path: str) -> str | None:
        """Return the last part of a symbolic link's target, the way sysfs names drivers and devices."""
        try:
            return os.readlink(self.path(path)).rpartition("/")[2]  # noqa: PTH115 - the text, not a path
        except OSError:
            return None


class Problems:
    """Collects the parts of an answer that are not known."""

    def __init__(self) -> None:
        self.entries: list[dict[str, str]] = []

    def add(self, part: str, reason: Any) -> None:
        """Note that ``part`` is not known, and why."""
        self.entries.append({"part": part, "reason": str(reason)})

    def names(self) -> set[str]:
        """Return the top-level keys that have a problem."""
        return {entry["part"].partition(".")[0] for entry in self.entries}
