"""The control groups of a lab: the one sure way to find, count and end all of its processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ironlease.lab.errors import LabError, LabUnavailableError
from ironlease.lab.mounts import current_mounts

ROOT_NAME = "ironlease-lab"
KILL_SECONDS = 15.0


def unified_mount() -> Path:
    """Return where the unified (version 2) control group tree is mounted for writing.

    On a machine with the older layout beside it this is ``/sys/fs/cgroup/unified``.
    """
    for mount in current_mounts():
        if mount.kind == "cgroup2" and mount.writable:
            return mount.point
    raise LabUnavailableError(
        code="lab-no-cgroups",
        found="No writable cgroup2 file system is mounted.",
        needed="A kernel with version 2 control groups, and in a container: --privileged --cgroupns=host.",
        next_step="mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
    )


@dataclass(frozen=True)
class ControlGroup:
    """One folder of the unified tree; ``name`` is its path below ``mount``."""

    mount: Path
    name: str

    @property
    def path(self) -> Path:
        """The group's folder."""
        return self.mount / self.name

    @property
    def exists(self) -> bool:
        """Whether the group is there."""
        return self.path.is_dir()

    def create(self) -> None:
        """Make the group and its parents."""
        self.path.mkdir(parents=True, exist_ok=True)

    def child(self, name: str) -> ControlGroup:
        """Return the group ``name`` below this one, which need not exist."""
        return ControlGroup(self.mount, f"{self.name}/{name}")

    def children(self) -> list[ControlGroup]:
        """Return the groups directly below this one."""
        if not self.exists:
            return []
        return [self.child(entry.name) for entry in sorted(self.path.iterdir()) if entry.is_dir()]

    def processes(self) -> list[int]:
        """Return the ids of all processes in this group and below."""
        found: list[int] = []
        for folder, _, _ in os.walk(self.path):
            try:
                text = (Path(folder) / "cgroup.procs").read_text(encoding="ascii")
            except OSError:
                continue  # the group ended between the listing and the reading
            found.extend(int(word) for word in text.split())
        return found

    def joining(self, argv: Sequence[str]) -> list[str]:
        """Return a command that enters this group and then becomes ``argv``.

        It enters by itself, so that no moment exists in which ``argv`` already runs outside of the group.
        """
        return ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(self.path / "cgroup.procs"), *argv]

    def kill(self) -> None:
        """End all processes in this group and below at once, and wait until they are gone.

        Raises LabError when some are left after a time limit (a process that hangs in the kernel).
        """
        deadline = time.monotonic() + KILL_SECONDS
        while remaining := self.processes():
            self._kill_once(remaining)
            if time.monotonic() > deadline:
                raise LabError(
                    code="lab-process-stuck",
                    found=f"Processes {', '.join(map(str, remaining))} do not end.",
                    needed="No process of the lab left.",
                    next_step=f"ps -o pid,stat,wchan:20,args -p {','.join(map(str, remaining))}",
                )
            time.sleep(0.02)

    def _kill_once(self, processes: list[int]) -> None:
        switch = self.path / "cgroup.kill"  # Linux 5.14
        if switch.exists():
            switch.write_text("1", encoding="ascii")
            return
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def remove(self) -> None:
        """Remove this group and all below; the processes must have ended. Nothing happens where there is none."""
        deadline = time.monotonic() + KILL_SECONDS
        while self.exists:
            if self._remove_once():
                return
            if time.monotonic() > deadline:
                raise LabError(
                    code="lab-cgroup-busy",
                    found=f"The control group {self.path} is still in use.",
                    needed="No control group of the lab left.",
                    next_step="invoke lab.down",
                )
            self.kill()
            time.sleep(0.02)

    def _remove_once(self) -> bool:
        removed = True
        for folder, _, _ in os.walk(self.path, topdown=False):
            try:
                Path(folder).rmdir()
            except FileNotFoundError:
                continue
            except OSError:
                removed = False  # the kernel has not let go of an ended process yet
        return removed
