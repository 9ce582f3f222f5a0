"""Runs a playbook over hosts to its end: a host that reboots or loses its connection in the middle is waited for and
its play is run again, while the others go on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from ironlease import changes, diagnose, runner
from ironlease.changes import Change
from ironlease.errors import IronleaseError, UnfinishedError
from ironlease.footprint import Recorder
from ironlease.paths import Project
from ironlease.runner import Playbook, TaskEvent

# How often one host's play is taken up again after it was cut off.
MAX_RESUMES = 2
# How a role's `debug` message begins when it says what check mode cannot know.
UNDECIDED = "undecided: "
# A large server takes up to ten minutes from reboot to login.
RECONNECT_SECONDS = float(os.environ.get("IRONLEASE_RECONNECT_SECONDS", "900"))


@dataclass
class Outcome:
    """What became of one host's play."""

    recorder: Recorder
    changes: list[Change] = field(default_factory=list)
    failures: list[IronleaseError] = field(default_factory=list)
    tasks: int = 0
    resumes: int = 0
    # The event that cut the play off: the host was not reachable any more, or its module died.
    cut_off: TaskEvent | None = None
    # Ansible came to its own end: without that word, the tasks that were seen may not have been all.
    ended: bool = False
    stayed_away: bool = False
    # What check mode cannot know, because it depends on what was not really done before.
    undecided: list[str] = field(default_factory=list)

    @property
    def finished(self) -> bool:
        """Whether the host's play ran to its end without a failure."""
        return self.ended and not self.failures and self.cut_off is None and self.tasks > 0


def converge(
    project: Project,
    playbook: Playbook,
    *,
    on_event: Callable[[TaskEvent, Outcome], None],
    wait_for_host: Callable[[str], bool],
    cancelled: Callable[[], bool],
) -> dict[str, Outcome]:
    """Run ``playbook`` and return each host's outcome.

    ``wait_for_host`` waits until a cut-off host can be logged into again and returns whether it can; it is called from
    several threads, and must return early when ``cancelled``. The waiting is bounded by the caller.
    """
    outcomes = {host: Outcome(Recorder(host)) for host in playbook.hosts}
    pending, status = list(playbook.hosts), ""
    for attempt in range(1 + MAX_RESUMES):
        for host in pending if attempt else []:
            outcomes[host] = _begin_again(outcomes[host])
        status = runner.run(
            project, replace(playbook, hosts=pending), lambda event: _take(event, outcomes, on_event), cancelled
        )
        lost = [host for host in pending if outcomes[host].cut_off is not None]
        if cancelled() or status == "timeout" or not lost or attempt == MAX_RESUMES:
            break
        pending = _wait_for_all(lost, wait_for_host)
        for host in set(lost) - set(pending):
            outcomes[host].stayed_away = True
        if cancelled() or not pending:
            break
    stopped = "was stopped at your word" if cancelled() else "took too long" if status == "timeout" else None
    for host, outcome in outcomes.items():
        _close(host, outcome, stopped)
    return outcomes


def _wait_for_all(hosts: list[str], wait_for_host: Callable[[str], bool]) -> list[str]:
    """Return those of ``hosts`` that came back; they are waited for side by side."""
    if not hosts:
        return []
    with ThreadPoolExecutor(max_workers=len(hosts)) as pool:
        return [host for host, is_back in zip(hosts, pool.map(wait_for_host, hosts), strict=True) if is_back]


def _take(event: TaskEvent, outcomes: dict[str, Outcome], on_event: Callable[[TaskEvent, Outcome], None]) -> None:
    outcome = outcomes.get(event.host)
    if outcome is None:
        return
    if event.kind in {"ok", "skipped"}:
        outcome.tasks += 1
        outcome.changes.extend(changes.of(event))
        outcome.recorder.record(event)
        outcome.undecided.extend(_undecided(event))
    elif event.kind == "unreachable" or (event.kind == "failed" and diagnose.looks_interrupted(event)):
        outcome.cut_off = event
    elif event.kind == "failed" and not event.ignored:
        outcome.failures.extend(diagnose.explain(event))
    elif event.kind == "ended":
        outcome.ended = True
    on_event(event, outcome)


def _undecided(event: TaskEvent) -> list[str]:
    """Return what a role says that check mode cannot know: `debug` messages that begin with the word."""
    messages = [str(result.get("msg") or "") for result in event.results]
    return [f"{event.role}: {text.removeprefix(UNDECIDED)}" for text in messages if text.startswith(UNDECIDED)]


def _begin_again(outcome: Outcome) -> Outcome:
    """Return the outcome for the next attempt: what was changed stays counted, the footprint is recorded anew."""
    return Outcome(
        recorder=Recorder(outcome.recorder.host),
        changes=outcome.changes,
        resumes=outcome.resumes + 1,
    )


def _close(host: str, outcome: Outcome, stopped: str | None) -> None:
    """Give a host that did not finish its reason."""
    if outcome.failures or outcome.finished:
        return
    event = outcome.cut_off
    if stopped is not None:
        outcome.failures.append(_interrupted(host, stopped))
    elif event is None:
        outcome.failures.append(_ended_early(host))
    elif event.kind == "failed" and not outcome.stayed_away:
        # The host came back each time, so the module's own end is the reason.
        outcome.failures.extend(diagnose.explain(event))
    else:
        outcome.failures.append(_lost(host, event))


def _interrupted(host: str, why: str) -> UnfinishedError:
    return UnfinishedError(
        code="interrupted",
        found=f"{host}: the provisioning {why}.",
        needed="A run to the end; what was done so far stays.",
        next_step="Run the same command again: it goes on where this one stopped.",
        host=host,
    )


def _ended_early(host: str) -> UnfinishedError:
    return UnfinishedError(
        code="play-stopped",
        found=f"{host}: Ansible ended before it came to the end of the host's play.",
        needed="A play to its end; something on this computer stopped it (is its memory full?).",
        next_step="Run the same command again: it goes on where this one stopped.",
        host=host,
    )


def _lost(host: str, event: TaskEvent) -> UnfinishedError:
    where = f"{event.role or 'play'}: {event.task}"
    words = f": {diagnose.short_words(event)}" if event.kind == "unreachable" else ""
    return UnfinishedError(
        code="connection-lost",
        found=f"{host}: the connection was lost ({where}) and did not come back to stay{words}.",
        needed="A host that stays reachable over SSH.",
        next_step="When the host answers again, run the same command: it goes on where this one stopped.",
        host=host,
    )
