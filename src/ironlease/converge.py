"""Runs a playbook over hosts to its end: a host that reboots or loses its connection in the middle is waited for and
its play is run again, while the others go on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ironlease import changes, diagnose, runner
from ironlease.changes import Change
from ironlease.errors import IronleaseError, UnfinishedError
from ironlease.footprint import Recorder
from ironlease.paths import Project
from ironlease.runner import Playbook, TaskEvent

# How often one host's play is taken up again after it was cut off.
MAX_RESUMES = 2
# A large server takes up to ten minutes from reboot to login.
RECONNECT_SECONDS = float(os.environ.get("IRONLEASE_RECONNECT_SECONDS", "900"))


@dataclass
class Outcome:
    """What became of one host's play."""

    recorder: Recorder
    changes: list[Change] = field(default_factory=list)
    failures: list[IronleaseError] = field(default_factory=list)
    tasks: int = 0
    changed: int = 0
    resumes: int = 0
    seconds: float = 0.0
    cut_off: str | None = None
    # Tasks that check mode passes over, because what they would do depends on what was not really done before them.
    undecided: list[str] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether the host's play ran to its end without a failure."""
        return not self.failures and self.cut_off is None and self.tasks > 0


def converge(
    project: Project,
    playbook: Playbook,
    *,
    on_event: Callable[[TaskEvent, Outcome], None],
    wait_for_host: Callable[[str], bool],
    cancelled: Callable[[], bool],
) -> dict[str, Outcome]:
    """Run ``playbook`` and return each host's outcome.

    ``wait_for_host`` waits until a cut-off host can be logged into again and returns whether it can; the waiting for
    it is bounded by the caller.
    """
    outcomes = {host: Outcome(Recorder(host)) for host in playbook.hosts}
    started = time.monotonic()
    pending = list(playbook.hosts)
    for _ in range(1 + MAX_RESUMES):
        status = runner.run(
            project, replace(playbook, hosts=pending), lambda event: _take(event, outcomes, on_event), cancelled
        )
        for host in pending:
            outcomes[host].seconds = time.monotonic() - started
        if cancelled() or status in {"canceled", "timeout"}:
            _mark_unfinished(outcomes, status)
            break
        pending = [host for host in pending if outcomes[host].cut_off is not None and wait_for_host(host)]
        if not pending:
            break
        for host in pending:
            outcomes[host] = _begin_again(outcomes[host])
    for host, outcome in outcomes.items():
        _close(host, outcome)
    return outcomes


def _take(event: TaskEvent, outcomes: dict[str, Outcome], on_event: Callable[[TaskEvent, Outcome], None]) -> None:
    outcome = outcomes.get(event.host)
    if outcome is None:
        return
    if event.kind in {"ok", "skipped"}:
        outcome.tasks += 1
        outcome.changed += event.changed
        outcome.changes.extend(changes.of(event))
        outcome.recorder.record(event)
        if event.kind == "skipped" and any("ansible_check_mode" in _condition(result) for result in event.results):
            outcome.undecided.append(f"{event.role}: {event.task}")
    elif event.kind == "unreachable" or (event.kind == "failed" and diagnose.looks_interrupted(event)):
        outcome.cut_off = f"{event.role or 'play'}: {event.task}"
    elif event.kind == "failed" and not event.ignored:
        outcome.failures.extend(diagnose.explain(event))
    on_event(event, outcome)


def _condition(result: dict[str, Any]) -> str:
    return str(result.get("false_condition") or "")


def _begin_again(outcome: Outcome) -> Outcome:
    """Return the outcome for the next attempt: what was changed stays counted, the footprint is recorded anew."""
    return Outcome(
        recorder=Recorder(outcome.recorder.host),
        changes=outcome.changes,
        changed=outcome.changed,
        resumes=outcome.resumes + 1,
    )


def _mark_unfinished(outcomes: dict[str, Outcome], status: str) -> None:
    why = "stopped at your word" if status == "canceled" else "took too long and was stopped"
    for host, outcome in outcomes.items():
        if not outcome.failures:
            outcome.failures.append(
                UnfinishedError(
                    code="interrupted",
                    found=f"{host}: the provisioning was {why}.",
                    needed="A run to the end.",
                    next_step="Run the same command again: it goes on where this one stopped.",
                    host=host,
                )
            )


def _close(host: str, outcome: Outcome) -> None:
    """Give every host that did not finish a reason."""
    if outcome.failures or outcome.finished:
        return
    where = outcome.cut_off or "before its first task"
    outcome.failures.append(
        UnfinishedError(
            code="connection-lost",
            found=f"{host}: the connection was lost ({where}) and did not come back.",
            needed="A host that stays reachable over SSH.",
            next_step="When the host answers again, run the same command: it goes on where this one stopped.",
            host=host,
        )
    )


def by_kind(all_changes: list[Change]) -> dict[str, list[dict[str, Any]]]:
    """Return changes grouped by kind, for reports."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for change in all_changes:
        grouped.setdefault(change.kind, []).append(change.to_json())
    return grouped
