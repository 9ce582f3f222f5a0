"""Saves what the seller handed over, on the host and on the control side, before the first change."""

from __future__ import annotations

import hashlib
from typing import Any

from ironlease import files
from ironlease.errors import UnfinishedError
from ironlease.ops.context import Context
from ironlease.ops.examine import Examined

HOST_DIRECTORY = "/var/lib/ironlease/seller-state"
TIMEOUT_SECONDS = 300.0


def save(context: Context, examined: Examined) -> dict[str, Any]:
    """Save the host's state once, and keep a copy here; return the snapshot's description.

    What an earlier run saved is never replaced: only the first state is the seller's.
    Raises UnfinishedError when the copy that arrived is not the one that was written.
    """
    session = examined.session
    snapshot = session.agent.ask("snapshot", {"directory": HOST_DIRECTORY}, timeout_seconds=TIMEOUT_SECONDS)
    folder = files.private_folder(context.project.host_state(examined.host.name) / "seller-state")
    archive = folder / f"{snapshot['sha256']}.tar.gz"
    if not archive.exists():
        completed = session.connection.run(
            [*session.privilege.prefix, "cat", snapshot["path"]],
            stdin=session.privilege.stdin(b""),
            timeout_seconds=TIMEOUT_SECONDS,
        )
        if hashlib.sha256(completed.output).hexdigest() != snapshot["sha256"]:
            raise UnfinishedError(
                code="seller-state-copy",
                found=f"{examined.host.name}: the copy of {snapshot['path']} did not arrive whole.",
                needed="The seller's state on this machine too, before anything is changed.",
                next_step="Run the same command again; nothing was changed.",
                host=examined.host.name,
            )
        files.write_atomically(archive, completed.output)
    files.write_json(folder / "snapshot.json", snapshot)
    return snapshot
