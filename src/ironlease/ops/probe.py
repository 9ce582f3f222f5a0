"""``invoke probe``: what a host is and what the seller installed on it, read only."""

from __future__ import annotations

from typing import Any

from ironlease.agent import Archive
from ironlease.console import Table
from ironlease.inventory import Host
from ironlease.ops import fleet, hosts
from ironlease.ops.context import Context
from ironlease.ops.enrol import FirstContact, enrol_hosts
from ironlease.ops.passwords import Passwords
from ironlease.ops.result import Result
from ironlease.ops.session import open_session

_GIB = 1024**3


def run(
    context: Context,
    *,
    host: list[str],
    group: str | None = None,
    fingerprint: str | None = None,
    password_file: str | None = None,
) -> Result:
    """Probe hosts; one that was never enrolled is enrolled first."""
    chosen = hosts.select(context, host, group)
    passwords = Passwords(context.console, password_file)
    enrolled, errors = enrol_hosts(context, chosen, FirstContact(fingerprint), passwords)
    archive = Archive.build(context.project)

    def probe(one: Host) -> dict[str, Any]:
        session = open_session(context.project, chosen.inventory, one, archive, passwords.given)
        try:
            answer = session.agent.ask("probe")
        finally:
            session.close()
        context.run_folder.write_json(f"hosts/{one.name}/probe.json", answer)
        return answer

    ready = [one for one in chosen.hosts if one.name in enrolled]
    probes, failed = fleet.each(ready, lambda one: one.name, probe)
    problems = [
        f"{name}: {problem['part']} is not known: {problem['reason']}"
        for name, answer in probes.items()
        for problem in answer["problems"]
    ]
    return Result(
        data={"hosts": probes},
        lines=[_table(probes), *problems] if probes else [],
        summary=f"{len(probes)} of {len(chosen.hosts)} probed; nothing was changed.",
        errors=[*errors, *failed],
    )


def _table(probes: dict[str, dict[str, Any]]) -> Table:
    table = Table(
        ("host", "system", "kernel", "accelerators", "CPU threads", "memory", "free on /", "driver", "hardware")
    )
    for name, probe in probes.items():
        table.rows.append(
            (
                name,
                _or_unknown(_value(probe, "os", "pretty_name")),
                _or_unknown(_value(probe, "os", "kernel_release")),
                _accelerators(probe),
                _or_unknown(_value(probe, "cpu", "threads")),
                _gib(probe.get("memory_bytes")),
                _gib(_root_available(probe)),
                _driver(probe),
                f"SIMULATED: {probe['simulated']}" if probe.get("simulated") else "real",
            )
        )
    return table


def _value(probe: dict[str, Any], section: str, name: str) -> Any:
    return (probe.get(section) or {}).get(name)


def _or_unknown(value: Any) -> str:
    return "unknown" if value is None else str(value)


def _gib(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else f"{size_bytes / _GIB:.0f} GiB"


def _root_available(probe: dict[str, Any]) -> int | None:
    mounts = [mount for mount in probe.get("mounts") or [] if mount["path"] == "/"]
    return mounts[0]["available_bytes"] if mounts else None


def _accelerators(probe: dict[str, Any]) -> str:
    devices = _value(probe, "pci", "accelerators")
    if devices is None:
        return "unknown" if probe.get("pci") else "none (no PCI bus)"
    if not devices:
        return "none"
    ids = [f"{device['vendor']}:{device['device']}" for device in devices]
    return ", ".join(f"{ids.count(one)}x {one}" for one in sorted(set(ids)))


def _driver(probe: dict[str, Any]) -> str:
    driver = probe.get("nvidia_driver")
    if driver is None:
        return "unknown"
    return f"{driver['version']} ({driver['flavour']})" if driver.get("loaded") else "none"
