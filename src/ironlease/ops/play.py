"""Runs the provisioning playbook over examined hosts, showing progress and keeping every event."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ironlease.console import Progress
from ironlease.converge import Outcome, converge
from ironlease.ops.context import Context
from ironlease.ops.examine import Examined
from ironlease.ops.hosts import Chosen
from ironlease.ops.passwords import Passwords
from ironlease.runner import Playbook, TaskEvent

PLAYBOOK = "provision-node.yml"
ARGUMENT_CHECK = "Validating arguments against arg spec"

T = TypeVar("T")


class Play:
    """One run of the playbook.

    ``come_back`` waits for a host that was cut off and says whether it is back. ``cancelled`` is set by Ctrl-C.
    """

    def __init__(
        self,
        context: Context,
        chosen: Chosen,
        *,
        passwords: Passwords,
        come_back: Callable[[Examined], bool],
        cancelled: threading.Event,
    ) -> None:
        self._context = context
        self._chosen = chosen
        self._passwords = passwords
        self._come_back = come_back
        self._cancelled = cancelled

    def run(self, examined_hosts: list[Examined], *, check: bool) -> dict[str, Outcome]:
        """Run the roles on the hosts, as their plans say, and return each host's outcome."""
        by_name = {examined.host.name: examined for examined in examined_hosts}
        playbook = self._playbook(by_name, check=check)
        verb = "would change" if check else "changed"
        with self._context.console.progress(list(by_name), verb=verb) as progress:

            def wait_for_host(name: str) -> bool:
                progress.update(name, role="connection", task="waiting for the host to come back", state="running")
                return self._come_back(by_name[name])

            outcomes = self._until_done_or_cancelled(
                lambda: converge(
                    self._context.project,
                    playbook,
                    on_event=lambda event, outcome: self._take(progress, event, outcome),
                    wait_for_host=wait_for_host,
                    cancelled=self._cancelled.is_set,
                )
            )
            for name, outcome in outcomes.items():
                progress.update(name, state="done" if outcome.finished else "failed", changed=len(outcome.changes))
        return outcomes

    def _playbook(self, by_name: dict[str, Examined], *, check: bool) -> Playbook:
        project = self._context.project
        variables: dict[str, dict[str, Any]] = {}
        for name, examined in by_name.items():
            self._context.run_folder.write_json(f"plans/{name}.json", examined.plan.to_json())
            connection = examined.session.connection
            variables[name] = {"ansible_user": connection.target.user}
            # Whatever let us in lets Ansible in: our own key, or the user's. A key of the SSH agent's needs no file.
            if connection.key_file is not None:
                variables[name]["ansible_ssh_private_key_file"] = str(connection.key_file)
        return Playbook(
            path=project.root / "playbooks" / PLAYBOOK,
            inventory=self._chosen.inventory,
            hosts=list(by_name),
            plan_directory=self._context.run_folder.path / "plans",
            check=check,
            host_variables=variables,
            become_password=self._passwords.given,
        )

    def _until_done_or_cancelled(self, work: Callable[[], T]) -> T:
        """Run ``work`` in a thread, so that Ctrl-C reaches us, stops Ansible in order, and still gives a report."""
        with ThreadPoolExecutor(max_workers=1) as pool:
            future = pool.submit(work)
            while True:
                try:
                    return future.result()
                except KeyboardInterrupt:
                    if not self._cancelled.is_set():
                        self._context.console.note("Stopping after Ctrl-C; what was done so far stays.")
                    self._cancelled.set()

    def _take(self, progress: Progress, event: TaskEvent, outcome: Outcome) -> None:
        if event.kind == "started":
            # Ansible's own check of a role's arguments is no step of ours, and its name fills a terminal.
            task = "" if event.task.startswith(ARGUMENT_CHECK) else event.task
            progress.update(event.host, role=event.role or "plan", task=task, changed=len(outcome.changes))
            return
        if event.kind == "ended":
            return
        if event.kind in {"failed", "unreachable"}:
            progress.update(event.host, changed=len(outcome.changes), state="failed")
        # The module's arguments are left out: they repeat the plan, and are the one place where a secret could stand.
        results = [{name: value for name, value in result.items() if name != "invocation"} for result in event.results]
        self._context.run_folder.append_line(
            "events.jsonl",
            {
                "host": event.host,
                "kind": event.kind,
                "role": event.role,
                "task": event.task,
                "module": event.module,
                "changed": event.changed,
                "results": results,
            },
        )
