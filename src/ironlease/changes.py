"""Says in one line each what a task changed on a host, or would change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ironlease.runner import TaskEvent

# apt's own summary of what it is about to do; the lists are indented by two spaces and may span lines.
_APT_LISTS = re.compile(
    r"The following (?P<what>NEW packages will be installed|packages will be upgraded|packages will be REMOVED|"
    r"packages will be DOWNGRADED|held packages will be changed):\n(?P<names>(?:  .*\n)+)"
)
_APT_WORDS = {
    "NEW packages will be installed": "install",
    "packages will be upgraded": "upgrade",
    "packages will be REMOVED": "remove",
    "packages will be DOWNGRADED": "downgrade",
    "held packages will be changed": "change held",
}
_MAX_NAMES = 12


@dataclass(frozen=True)
class Change:
    """One changed thing: ``kind`` is package, file, service, environment or other."""

    role: str
    task: str
    kind: str
    what: str

    def to_json(self) -> dict[str, str]:
        """Return the change for ``--json``."""
        return {"role": self.role, "task": self.task, "kind": self.kind, "what": self.what}


def of(event: TaskEvent) -> list[Change]:
    """Return what the finished task changed, one entry for each changed result."""
    if event.kind != "ok":
        return []
    module = event.module.rpartition(".")[2]
    kind = _KINDS.get(module, "other")
    describe = _DESCRIBE.get(module, _target)
    return [
        Change(event.role or "play", event.task, kind, describe(result) or _named_in(event.arguments) or event.task)
        for result in event.results
        if result.get("changed")
    ]


def _arguments(result: dict[str, Any]) -> dict[str, Any]:
    arguments = result.get("invocation", {}).get("module_args", {})
    return arguments if isinstance(arguments, dict) else {}


def _target(result: dict[str, Any]) -> str:
    arguments = _arguments(result)
    values = (result.get("dest"), result.get("path"), arguments.get("path"), arguments.get("name"))
    return next((str(value) for value in values if value), "")


def _named_in(arguments: str) -> str:
    """Return the target that the task names in its own arguments; check mode's results leave it out."""
    found = re.search(r"(?:^|, )(?:dest|path|name)=([^,{]+)", arguments)
    return found[1] if found else ""


def _apt(result: dict[str, Any]) -> str:
    parts = []
    for found in _APT_LISTS.finditer(str(result.get("stdout") or "")):
        names = found["names"].split()
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        parts.append(f"{_APT_WORDS[found['what']]} {', '.join(names[:_MAX_NAMES])}{more}")
    if parts:
        return "; ".join(parts)
    names = _arguments(result).get("package") or _arguments(result).get("name") or []
    return f"install {', '.join(names)}" if names else "refresh the package lists"


def _apt_packages(result: dict[str, Any]) -> str:
    return "; ".join(str(change) for change in result.get("changes") or ["packages"])


def _service(result: dict[str, Any]) -> str:
    arguments = _arguments(result)
    words = [str(arguments["state"])] if arguments.get("state") else []
    if arguments.get("enabled") is not None:
        words.append("enabled" if arguments["enabled"] else "disabled")
    if not arguments.get("name"):
        return "systemd reloaded its units"
    return f"{arguments['name']}: {', '.join(words)}"


def _user(result: dict[str, Any]) -> str:
    return f"user {_target(result)}"


def _listed(result: dict[str, Any]) -> str:
    changes = result.get("changes")
    if isinstance(changes, list) and changes:
        # A kernel parameter of several numbers is read back with tabs between them.
        shown = ", ".join(" ".join(str(change).split()) for change in changes[:_MAX_NAMES])
        more = f" and {len(changes) - _MAX_NAMES} more" if len(changes) > _MAX_NAMES else ""
        return f"{_target(result)}: {shown}{more}"
    return _target(result)


_KINDS = {
    "apt": "package",
    "apt_packages": "package",
    "copy": "file",
    "dpkg_selections": "package",
    "file": "file",
    "python_environment": "environment",
    "systemd": "service",
    "systemd_service": "service",
    "template": "file",
}
_DESCRIBE = {
    "apt": _apt,
    "apt_packages": _apt_packages,
    "kernel_parameters": _listed,
    "python_environment": _listed,
    "shared_memory": _listed,
    "systemd": _service,
    "systemd_service": _service,
    "user": _user,
}
