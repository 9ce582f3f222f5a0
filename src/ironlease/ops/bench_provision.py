"""``invoke bench.provision``: provisioning on lab hosts against a script written by hand and against plain Ansible.

Both sides of a ratio are measured in turn in one run, on the same computer; only the ratios can be compared between
computers.
"""

from __future__ import annotations

import io
import json
import os
import shlex
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ironlease.agent import Archive
from ironlease.console import Table
from ironlease.errors import ExitCode, UnfinishedError
from ironlease.lab.lab import Lab
from ironlease.ops import hosts
from ironlease.ops.context import Context
from ironlease.ops.inventories import LAB
from ironlease.ops.plan import resolve
from ironlease.ops.result import Result
from ironlease.plan import Plan

ONE = "lab1"
BY_HAND = "lab2"
FOUR = ("lab1", "lab2", "lab3", "lab4")
STEP_TIMEOUT_SECONDS = 1800
FIRST_RUN_ROUNDS = 2
NO_CHANGE_ROUNDS = 5
SCRIPT = "provision-by-hand.sh"


@dataclass(frozen=True)
class Measure:
    """Medians in seconds of ours and of the other, which ran in turn."""

    name: str
    ours: float
    other_name: str
    other: float

    def to_json(self) -> dict[str, Any]:
        """Return the measure as ``--json`` prints it."""
        return {
            "name": self.name,
            "ours": round(self.ours, 2),
            "other": {"name": self.other_name, "value": round(self.other, 2)},
            "ratio": round(self.ours / self.other, 3),
            "unit": "s",
        }


def run(context: Context) -> Result:
    """Measure; all lab hosts are reset first, and are left provisioned."""
    bench = _Bench(context)
    measures = [bench.first_run(), bench.no_change(), bench.no_change_four_hosts()]
    table = Table(("measure", "ours", "other", "", "ratio"))
    for measure in measures:
        ratio = measure.ours / measure.other
        table.rows.append(
            (measure.name, f"{measure.ours:.2f} s", f"{measure.other:.2f} s", measure.other_name, f"{ratio:.2f}")
        )
    return Result(
        data={"measures": [measure.to_json() for measure in measures]},
        lines=[table],
        summary=f"Medians of {FIRST_RUN_ROUNDS} first runs and {NO_CHANGE_ROUNDS} runs with nothing to change.",
    )


class _Bench:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._project = context.project
        self._lab = Lab.here(context.project, progress=context.console.note)

    def first_run(self) -> Measure:
        """A fresh host each: ours without the training run, and the script, which has none."""
        ours, by_hand = [], []
        for number in range(FIRST_RUN_ROUNDS):
            self._context.console.note(f"first run, round {number + 1} of {FIRST_RUN_ROUNDS}")
            self._lab.reset([ONE, BY_HAND])
            steps: list[Callable[[], None]] = [
                lambda: ours.append(self._provision_fresh(ONE)),
                lambda: by_hand.append(self._by_hand(BY_HAND)),
            ]
            # The second to run finds the package files in the computer's memory: take turns.
            for step in steps if number % 2 == 0 else reversed(steps):
                step()
        return Measure("first-run", statistics.median(ours), "script", statistics.median(by_hand))

    def no_change(self) -> Measure:
        """One host on which everything is as wanted: ours, and all roles through plain ansible-playbook."""
        self._provision([ONE])
        ours, plain = [], []
        for number in range(NO_CHANGE_ROUNDS):
            self._context.console.note(f"nothing to change, round {number + 1} of {NO_CHANGE_ROUNDS}")
            ours.append(self._unchanged([ONE]))
            plain.append(self._plain_ansible(ONE))
        return Measure("no-change", statistics.median(ours), "ansible-playbook", statistics.median(plain))

    def no_change_four_hosts(self) -> Measure:
        """Ours on four hosts, and ours on one of them."""
        self._lab.reset([BY_HAND])
        self._lab.up(list(FOUR))
        self._provision(list(FOUR))
        four, one = [], []
        for number in range(NO_CHANGE_ROUNDS):
            self._context.console.note(f"four hosts, round {number + 1} of {NO_CHANGE_ROUNDS}")
            four.append(self._unchanged(list(FOUR)))
            one.append(self._unchanged([ONE]))
        return Measure("no-change-four-hosts", statistics.median(four), "one host", statistics.median(one))

    def _provision_fresh(self, host: str) -> float:
        started = time.monotonic()
        report = self._provision([host])[host]
        return time.monotonic() - started - float(report["proof"]["seconds"])

    def _unchanged(self, names: list[str]) -> float:
        started = time.monotonic()
        reports = self._provision(names)
        seconds = time.monotonic() - started
        if changed := [name for name, report in reports.items() if report["changed"]]:
            raise _useless(f"a run that should change nothing changed {', '.join(changed)}")
        return seconds

    def _provision(self, names: list[str]) -> dict[str, Any]:
        """Run our own command as a user does, as a process of its own."""
        argv = [_beside_python("invoke"), "provision", "--host", ",".join(names), "--json"]
        ended = self._run(argv)
        reports: dict[str, Any] = json.loads(ended.stdout)["hosts"]
        return reports

    def _plain_ansible(self, host: str) -> float:
        """Play the same roles with the default strategy; the plan is given, so that no probe is counted against it."""
        plans = self._context.run_folder.path / "plans"
        self._context.run_folder.write_json(f"plans/{host}.json", self._plan(host).to_json())
        argv = [
            _beside_python("ansible-playbook"),
            "-i",
            str(self._project.inventories / LAB),
            "-l",
            host,
            "-e",
            "play_strategy=linear",
            str(self._project.root / "playbooks" / "provision-node.yml"),
        ]
        started = time.monotonic()
        self._run(argv, IRONLEASE_PLAN_DIR=str(plans))
        return time.monotonic() - started

    def _by_hand(self, host: str) -> float:
        """Send the script with its inputs over one connection, and run it."""
        parcel = self._parcel(self._plan(host))
        unpack = f"mkdir -p /root/by-hand && tar -xzf - -C /root/by-hand && /root/by-hand/{SCRIPT}"
        argv = [*self._lab.ssh_command(host), unpack]
        started = time.monotonic()
        self._run(argv, stdin=parcel)
        return time.monotonic() - started

    def _plan(self, host: str) -> Plan:
        chosen = hosts.select(self._context, [host], None)
        plans, errors = resolve(self._context, chosen, None)
        if errors:
            raise errors[0]
        return plans[host]

    def _parcel(self, plan: Plan) -> bytes:
        archive = Archive.build(self._project)
        files = {
            "plan.env": _shell_variables(plan).encode(),
            "requirements.txt": _requirements(plan).encode(),
            "limits.conf": _limits(plan).encode(),
            "sysctl.conf": _sysctl(plan).encode(),
            "node.json": json.dumps(plan.values["node_agent"]["settings"], indent=2).encode(),
            "agent.pyz": archive.content,
            SCRIPT: (self._project.root / "benchmarks" / SCRIPT).read_bytes(),
        }
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
            for name, content in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                entry.mode = 0o755 if name == SCRIPT else 0o644
                tar.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()

    def _run(self, argv: list[str], stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
        ended = subprocess.run(
            argv,
            input=stdin,
            capture_output=True,
            timeout=STEP_TIMEOUT_SECONDS,
            check=False,
            cwd=self._project.root,
            env={**os.environ, **environment},
        )
        if ended.returncode != 0:
            words = (ended.stderr or ended.stdout).decode(errors="replace").strip()
            raise _useless(f"`{Path(argv[0]).name}` ended with {ended.returncode}: {words[-600:]}")
        return ended


def _beside_python(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _useless(what: str) -> UnfinishedError:
    return UnfinishedError(
        code="bench-useless",
        exit_code=ExitCode.UNFINISHED,
        found=f"The measurement means nothing: {what}.",
        needed="Two sides that both do the whole work.",
        next_step="Mend it, then run again: invoke lab.reset --host lab1,lab2 && invoke bench.provision",
    )


def _shell_variables(plan: Plan) -> str:
    base, pytorch = plan.values["host_base"], plan.values["pytorch"]
    sync = base["time_sync"] or {}
    variables = {
        "PACKAGES": " ".join([*base["packages"], *filter(None, [sync.get("package")])]),
        "TRAINING_USER": base["user"],
        "TIME_SYNC_UNIT": (sync.get("unit") or "") if sync.get("active") else "",
        "PYTHON": pytorch["python"],
        "ENVIRONMENT": pytorch["environment"],
        "INDEX_URL": pytorch["index_url"] or "",
    }
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in variables.items())


def _requirements(plan: Plan) -> str:
    return "".join(
        f"{one['name']}=={one['version']} " + " ".join(f"--hash=sha256:{digest}" for digest in one["sha256"]) + "\n"
        for one in plan.values["pytorch"]["packages"]
    )


def _limits(plan: Plan) -> str:
    limits = {name: value for name, value in plan.values["node_tuning"]["limits"].items() if value is not None}
    return "".join(f"{who} - {name} {value}\n" for who in ("*", "root") for name, value in limits.items())


def _sysctl(plan: Plan) -> str:
    return "".join(f"{name} = {value}\n" for name, value in (plan.values["node_tuning"]["sysctl"] or {}).items())
