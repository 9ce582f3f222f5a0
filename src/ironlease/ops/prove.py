"""Proves that a host trains: collects its manifest, and runs the baseline training where no proof of it is kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ironlease import evidence
from ironlease.errors import ExitCode, IronleaseError
from ironlease.ops.context import Context
from ironlease.ops.examine import Examined

# Two processes on two busy cores need about ten seconds; a first import from a cold disk needs minutes.
BASELINE_TIMEOUT_SECONDS = 900.0

VERDICT_EXIT_CODES = {"pass": ExitCode.OK, "fail": ExitCode.FAIL}


class BaselineError(IronleaseError):
    """The training run did not prove the host."""


@dataclass(frozen=True)
class Proof:
    """What proves (or disproves) that the host trains.

    ``fresh`` says that the training ran just now, and ``seconds`` for how long.
    """

    verdict: str
    fresh: bool
    seconds: float
    manifest: dict[str, Any]
    document: dict[str, Any]

    @property
    def baseline(self) -> dict[str, Any]:
        """The training run's own report."""
        baseline: dict[str, Any] = self.document["baseline"]
        return baseline

    @property
    def training(self) -> dict[str, Any]:
        """What the training itself said of its surroundings; empty when it did not get so far."""
        training: dict[str, Any] = self.baseline.get("train") or {}
        return training

    def require_pass(self, host: str) -> None:
        """Raise BaselineError unless the verdict is a pass; an unknown is not one."""
        if self.verdict == "pass":
            return
        raise BaselineError(
            code=f"baseline-{self.verdict}",
            exit_code=VERDICT_EXIT_CODES.get(self.verdict, ExitCode.UNKNOWN),
            found=f"{host}: the training run says {self.verdict}: {self.baseline.get('reason') or 'no reason given'}",
            needed="Two processes that train, save a checkpoint and go on from it.",
            next_step=f"invoke provision --host {host} --full (the run folder's evidence.json has the output)",
            host=host,
        )


def prove(context: Context, examined: Examined, *, full: bool, before_training: Callable[[], None]) -> Proof:
    """Return the proof for the host as it is now; the training runs only when no kept proof covers its manifest."""
    agent = examined.session.agent
    settings = examined.plan.values
    environment = settings["pytorch"]["environment"]
    manifest = agent.ask("manifest", {"environment": environment})
    request = {"environment": environment, "user": settings["host_base"]["user"], "processes": 2}
    subject = evidence.Subject(manifest["digest"], manifest["machine"], request)
    kept = None if full else evidence.load(context.project, examined.host.name, subject)
    if kept is not None:
        return Proof("pass", False, 0.0, manifest, kept)
    before_training()
    started = time.monotonic()
    baseline = agent.ask("baseline", request, timeout_seconds=BASELINE_TIMEOUT_SECONDS)
    document = evidence.keep(context.project, examined.host.name, subject, baseline)
    return Proof(str(baseline["verdict"]), True, time.monotonic() - started, manifest, document)
