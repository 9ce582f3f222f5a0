"""The footprint of a provisioning: everything on the host that the roles manage, as a list that can be observed.

It is recorded from the results of the tasks themselves while the roles run, so that a new task in a role is covered
without anybody remembering to list it. A task whose effect has no observer makes the footprint incomplete, and an
incomplete footprint never stands in for running the roles.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ironlease import files
from ironlease.paths import Project
from ironlease.runner import TaskEvent

SCHEMA = "ironlease.footprint/1"

# These decide, load or say something; they leave nothing on the host.
INERT_MODULES = frozenset(
    {
        "assert",
        "debug",
        "fail",
        "gather_facts",
        "import_role",
        "import_tasks",
        "include_role",
        "include_tasks",
        "ironlease_plan",
        "meta",
        "set_fact",
        "setup",
        "validate_argument_spec",
    }
)

Thing = dict[str, Any]


class UnobservableError(Exception):
    """A task's effect cannot be observed later, with the reason."""


@dataclass
class Recorder:
    """Collects one host's footprint while its play runs."""

    host: str
    things: list[Thing] = field(default_factory=list)
    incomplete: list[str] = field(default_factory=list)

    def record(self, event: TaskEvent) -> None:
        """Add what a finished task manages. Handlers only repeat what tasks want, and are passed over."""
        module = event.module.rpartition(".")[2]
        if event.handler or module in INERT_MODULES:
            return
        if event.kind == "failed" and event.ignored:
            # What it had done before it failed is nowhere written.
            self.incomplete.append(f"{event.role}: {event.task}: a failure that was passed over")
        if event.kind != "ok":
            return
        translate = _TRANSLATORS.get(module)
        for result in event.results:
            try:
                if translate is None:
                    raise UnobservableError(f"nothing observes the module {module}")
                if not result.get("skipped"):
                    for thing in translate(_arguments(module, result), result):
                        self.things.append({**thing, "role": event.role, "task": event.task})
            except UnobservableError as error:
                self.incomplete.append(f"{event.role}: {event.task}: {error}")

    def document(self, key: str) -> dict[str, Any]:
        """Return the footprint as ``ironlease.footprint/1``."""
        return {
            "schema": SCHEMA,
            "host": self.host,
            "key": key,
            "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "complete": not self.incomplete,
            "incomplete": self.incomplete,
            "things": self.things,
        }


def inputs_key(project: Project, plan_values: dict[str, Any]) -> str:
    """Return the digest of everything from which the roles' wishes follow: plan values, roles, plays, plugins.

    It says which footprint belongs to a plan. It never says that a host is as it should be: only observing does.
    """
    digest = hashlib.sha256(json.dumps(plan_values, sort_keys=True).encode())
    for folder in ("playbooks", "plugins", "roles"):
        for path in sorted((project.root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"\0{path.relative_to(project.root)}\0".encode())
                digest.update(hashlib.sha256(path.read_bytes()).digest())
    digest.update((project.root / "requirements.lock").read_bytes())
    return digest.hexdigest()


def path_of(project: Project, host: str) -> Path:
    """Return where the footprint of ``host`` is kept."""
    return project.host_state(host) / "footprint.json"


def load(project: Project, host: str, key: str) -> dict[str, Any] | None:
    """Return the complete footprint that belongs to ``key``, or None when the roles have to run."""
    document = files.read_document(path_of(project, host), SCHEMA)
    if document is None or document.get("key") != key or document.get("complete") is not True:
        return None
    return document if document.get("things") else None


def _arguments(module: str, result: Thing) -> Thing:
    """Return what the module was told.

    Raises UnobservableError when that is hidden, or has an effect that nobody observes.
    """
    arguments: Thing | None = result.get("invocation", {}).get("module_args")
    if arguments is None:
        raise UnobservableError("its arguments are hidden (no_log)")
    telling = _UNOBSERVED_ARGUMENTS.get(module, ())
    unobserved = [name for name in telling if arguments.get(name) not in (None, False, "no")]
    if unobserved:
        raise UnobservableError(f"nothing observes {module} with {', '.join(unobserved)}")
    return arguments


def _strings(value: Any) -> list[str]:
    items: Iterable[Any] = value if isinstance(value, list) else str(value).split(",") if value else []
    return [str(item).strip() for item in items]


def _packages(arguments: Thing, result: Thing) -> list[Thing]:
    state = arguments.get("state") or "present"
    names = _strings(arguments.get("package") or arguments.get("name") or arguments.get("pkg"))
    if arguments.get("deb") or any("*" in name for name in names):
        raise UnobservableError("apt with a file or a pattern")
    if state not in {"present", "absent"}:
        raise UnobservableError(f"apt with state {state}")
    things = []
    for name in names:
        bare, _, version = name.partition("=")
        things.append({"kind": "package", "name": bare, "version": version or None, "state": state})
    return things


def _apt_packages(arguments: Thing, result: Thing) -> list[Thing]:
    # Any version counts: the module leaves what is installed as it is.
    return [{"kind": "package", "name": name, "version": None, "state": "present"} for name in arguments["packages"]]


def _selection(arguments: Thing, result: Thing) -> list[Thing]:
    return [{"kind": "selection", "name": arguments["name"], "selection": arguments["selection"]}]


def _file_content(arguments: Thing, result: Thing) -> list[Thing]:
    path = result.get("dest") or result.get("path")
    sha1 = result.get("checksum")
    if not path or not sha1:
        raise UnobservableError("a copy that names no file and checksum")
    return [{"kind": "file", "path": path, "sha1": sha1, **_ownership(result)}]


def _ownership(result: Thing) -> Thing:
    return {name: result.get(name) for name in ("mode", "owner", "group")}


def _path(arguments: Thing, result: Thing) -> list[Thing]:
    path = result.get("dest") or result.get("path") or arguments.get("path")
    state = arguments.get("state") or "file"
    if arguments.get("recurse"):
        raise UnobservableError("file with recurse")
    if state == "absent":
        return [{"kind": "absent", "path": path}]
    if state == "directory":
        return [{"kind": "directory", "path": path, **_ownership(result)}]
    if state == "link":
        return [{"kind": "link", "path": path, "target": arguments.get("src")}]
    raise UnobservableError(f"file with state {state}")


def _account(kind: str, names: tuple[str, ...]) -> Callable[[Thing, Thing], list[Thing]]:
    def translate(arguments: Thing, result: Thing) -> list[Thing]:
        if (arguments.get("state") or "present") != "present":
            raise UnobservableError(f"{kind} with state {arguments['state']}")
        wanted = {name: arguments[name] for name in names if arguments.get(name) is not None}
        return [{"kind": kind, "name": arguments["name"], **wanted}]

    return translate


def _unit(arguments: Thing, result: Thing) -> list[Thing]:
    if arguments.get("name") is None:
        # Only a daemon-reload: nothing stays behind.
        return []
    if arguments.get("scope") not in {None, "system"}:
        raise UnobservableError(f"a unit of the scope {arguments['scope']}")
    state = arguments.get("state")
    if state not in {None, "started", "stopped"}:
        raise UnobservableError(f"a service with state {state} outside a handler")
    return [
        {
            "kind": "unit",
            "name": arguments["name"],
            "enabled": arguments.get("enabled"),
            "masked": arguments.get("masked"),
            "active": None if state is None else state == "started",
        }
    ]


def _sysctl(arguments: Thing, result: Thing) -> list[Thing]:
    live = [
        {"kind": "sysctl", "name": name, "value": str(value)}
        for name, value in sorted((arguments.get("values") or {}).items())
    ]
    return [*live, *_file_content(arguments, result)]


def _shared_memory(arguments: Thing, result: Thing) -> list[Thing]:
    return [{"kind": "mount_size", "path": "/dev/shm", "size_bytes": result["size_bytes"]}]  # noqa: S108 - a mount


def _python_environment(arguments: Thing, result: Thing) -> list[Thing]:
    packages = [{"name": item["name"], "version": item["version"]} for item in arguments["packages"]]
    python = arguments.get("python")
    return [{"kind": "python_environment", "path": arguments["path"], "packages": packages, "python": python}]


_FILE_ATTRIBUTES = ("attributes", "selevel", "serole", "setype", "seuser")
# Arguments that leave more on the host than the things below say.
_UNOBSERVED_ARGUMENTS = {
    "apt": ("autoremove", "default_release", "purge", "upgrade"),
    "copy": _FILE_ATTRIBUTES,
    "file": _FILE_ATTRIBUTES,
    "template": _FILE_ATTRIBUTES,
    "user": ("authorization", "expires", "generate_ssh_key", "hidden", "password", "password_lock", "profile", "role"),
}

_TRANSLATORS: dict[str, Callable[[Thing, Thing], list[Thing]]] = {
    "apt": _packages,
    "apt_packages": _apt_packages,
    "copy": _file_content,
    "dpkg_selections": _selection,
    "file": _path,
    "group": _account("group", ("gid", "system")),
    "kernel_parameters": _sysctl,
    "python_environment": _python_environment,
    "shared_memory": _shared_memory,
    "systemd": _unit,
    "systemd_service": _unit,
    "template": _file_content,
    "user": _account("user", ("uid", "group", "groups", "append", "comment", "home", "shell", "system", "create_home")),
}
OBSERVED_MODULES = frozenset(_TRANSLATORS)
