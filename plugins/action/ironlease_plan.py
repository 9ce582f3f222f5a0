# SPDX-License-Identifier: Apache-2.0
"""Give each host of a play its plan, as the fact ``plan``, and the agent's file, as the fact ``agent_archive``.

When our own command runs the play, the plans lie in the folder that ``$IRONLEASE_PLAN_DIR`` names, and nothing is asked
of the host. Plain `ansible-playbook` has no such folder: the host is then probed over the play's own connection, and
the plan is resolved here, by the same code.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ansible import context
from ansible.plugins.action import ActionBase

try:
    from ironlease import agent_archive
except ImportError:
    # Ansible from elsewhere than the project's environment, playing from a checkout.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))
    from ironlease import agent_archive

from ironlease import files
from ironlease.errors import CombinedError, IronleaseError, UsageError
from ironlease.paths import Project

PLAN_DIRECTORY = "IRONLEASE_PLAN_DIR"
PYTHON = "/usr/bin/python3"
PROBE_TIMEOUT_SECONDS = 120
# What coreutils' timeout exits with when the time is over.
TIMED_OUT = 124


class ActionModule(ActionBase):
    """The action ``ironlease_plan``. It takes no arguments and changes nothing."""

    _supports_check_mode = True
    _VALID_ARGS = frozenset()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the facts, or a failure in three parts."""
        result = super().run(tmp, task_vars)
        variables = task_vars or {}
        project = Project.here()
        archive = project.state / "agent" / "agent.pyz"
        try:
            sha256 = agent_archive.build(archive)
            plan = self._plan(variables["inventory_hostname"], archive, sha256)
        except IronleaseError as error:
            result.update(failed=True, msg=message(error))
            return result
        except ImportError as error:
            result.update(failed=True, msg=missing_library(error))
            return result
        result.update(
            changed=False,
            ansible_facts={"plan": plan, "agent_archive": {"path": str(archive), "sha256": sha256}},
        )
        return result

    def _plan(self, host: str, archive: Path, sha256: str) -> dict[str, Any]:
        folder = os.environ.get(PLAN_DIRECTORY)
        if folder:
            return stored_plan(Path(folder), host)
        return resolved_plan(inventory_sources(), host, self._probe(host, archive), sha256)

    def _probe(self, host: str, archive: Path) -> dict[str, Any]:
        """Run the agent's probe on the host, from a temporary folder that is removed at the end."""
        folder = self._make_tmp_path()
        try:
            remote = self._transfer_file(str(archive), f"{folder}/agent.pyz")
            self._fixup_perms2((folder, remote))
            argv = ["timeout", str(PROBE_TIMEOUT_SECONDS), PYTHON, "-I", remote, "probe"]
            answer = self._low_level_execute_command(shlex.join(argv))
        finally:
            self._remove_tmp_path(folder)
        return probe_of(host, answer)


def message(error: IronleaseError) -> str:
    """Return an error, or each of several, in the three lines that roles use."""
    errors = error.errors if isinstance(error, CombinedError) else [error]
    return "\n".join(f"Found: {one.found}\nNeeded: {one.needed}\nNext: {one.next_step}" for one in errors)


def missing_library(error: ImportError) -> str:
    """Return the message for an Ansible that runs outside of the project's environment and lacks its libraries."""
    return (
        f"Found: {error} (Ansible runs on {sys.executable}).\n"
        "Needed: Ansible from the project's own environment, where the plan's libraries are.\n"
        "Next: ./invoke --list makes .venv; then .venv/bin/ansible-playbook with the same arguments."
    )


def stored_plan(folder: Path, host: str) -> dict[str, Any]:
    """Return the plan that our own command made for the host.

    Raises UsageError when there is none that can be read.
    """
    path = folder / f"{host}.json"
    try:
        plan = files.read_json(path)
    except (OSError, ValueError) as error:
        raise UsageError(
            code="no-plan",
            found=f"There is no plan for {host} at {path}: {error}",
            needed=f"A plan for every host of the play, or no {PLAN_DIRECTORY} at all.",
            next_step=f"invoke provision --host {host}",
            host=host,
        ) from error
    return dict(plan)


def resolved_plan(sources: list[Path], host: str, probe: dict[str, Any], agent_sha256: str) -> dict[str, Any]:
    """Resolve the plan here.

    Raises UsageError for whatever is wrong in inventory or stack.
    """
    # These need libraries that an Ansible from elsewhere lacks; a stored plan does without.
    from ironlease import inventory, stack  # noqa: PLC0415
    from ironlease.plan import resolve  # noqa: PLC0415

    member = next(
        (member for source in sources for member in inventory.load(source).hosts if member.name == host), None
    )
    if member is None or member.stack is None:
        raise UsageError(
            code="no-stack",
            found=f"{host} has no ironlease_stack in {', '.join(map(str, sources)) or 'any inventory file'}.",
            needed="The set of versions that it should get.",
            next_step=f"Add ironlease_stack to {host} in the inventory; `invoke stacks` lists the stacks.",
            host=host,
        )
    plan = resolve(stack.load(member.stack), probe, member, datetime.now(UTC), agent_sha256=agent_sha256)
    return dict(plan.to_json())


def inventory_sources() -> list[Path]:
    """Return the inventory files and folders that Ansible was given; lists of names (`host,`) are none."""
    return [Path(source) for source in context.CLIARGS.get("inventory") or () if Path(source).exists()]


def probe_of(host: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the probe from what the agent's process left behind.

    Raises UsageError when it is none.
    """
    words = " ".join(str(answer.get("stderr") or answer.get("stdout") or "it printed nothing").split())
    if answer.get("rc") == TIMED_OUT:
        words = f"it did not end within {PROBE_TIMEOUT_SECONDS} s"
    try:
        probe = json.loads(answer.get("stdout", ""))
    except ValueError:
        probe = None
    if answer.get("rc") != 0 or not isinstance(probe, dict):
        raise UsageError(
            code="no-probe",
            found=f"The probe of {host} gave no answer: {words[-600:]}",
            needed=f"{PYTHON} (3.9 or newer) on the host, and an agent that ends by itself.",
            next_step=f"invoke probe --host {host} --debug",
            host=host,
        )
    return probe
