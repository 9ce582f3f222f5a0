"""What provision says before it changes anything, and how it counts time."""

from __future__ import annotations

from types import SimpleNamespace as Like
from typing import Any

from ironlease.ops import provision_report
from ironlease.ops.provision_report import HostReport


def said(report: HostReport) -> list[str]:
    """Return the lines that announce a plan that holds nothing new."""
    lines: list[str] = []
    plan: Any = Like(
        host=report.name,
        simulated=None,
        stack=Like(name="torch-cpu"),
        changes=[],
        reboots=Like(count=0),
        estimate_minutes=Like(total=0.4),
        findings=[],
    )
    context: Any = Like(console=Like(note=lines.append, warn=lines.append))
    examined: Any = Like(plan=plan, host=Like(name=report.name))
    provision_report.show_plans(context, [examined], {report.name: report})
    return lines


def test_what_is_mended_is_named_before_it_is_touched() -> None:
    report = HostReport("node1", differences=[{"target": "/etc/a", "state": "differs"}])
    report.differences.append({"target": "x.service", "state": "unknown", "reason": "systemd does not answer"})

    first, *rest, last = said(report)
    assert "nothing new" in first
    assert last == "Reasons: invoke explain --host node1"
    assert rest == ["node1: to mend: /etc/a", "node1: not known: x.service: systemd does not answer"]


def test_many_things_to_mend_are_counted() -> None:
    report = HostReport("node1", differences=[{"target": f"/etc/{n}", "state": "differs"} for n in range(20)])

    lines = said(report)
    assert lines[-2] == "node1: and 12 more"
    assert len(lines) == 11


def test_a_host_that_was_fresh_says_nothing_of_mending() -> None:
    assert len(said(HostReport("node1"))) == 2
