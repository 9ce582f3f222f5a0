#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Set kernel parameters now and for every boot."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ironlease_node.kernel_parameters import (
    Observation,
    is_name,
    observe,
    path_of,
    same_value,
)
from ansible.module_utils.ironlease_support import RefusalError, fail

DOCUMENTATION = r"""
module: kernel_parameters
short_description: Set kernel parameters now and for every boot
description:
  - Writes all parameters into one file of sysctl.d, which it owns whole, and sets their live values.
  - A parameter that this kernel does not have, or does not let this host's root change, is written to the file, left as
    it is, and reported under RV(refused) and as a warning. systemd-sysctl goes on in the same cases.
  - A value that the kernel calls invalid fails the task; every live value set before it is put back and the file is not
    touched.
options:
  values:
    description: The parameters by name, with dots as in sysctl.d(5).
    type: dict
    required: true
  path:
    description: The file of sysctl.d that holds them.
    type: path
    default: /etc/sysctl.d/90-ironlease.conf
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: ironlease
"""

EXAMPLES = r"""
- name: Allow more half-open connections
  kernel_parameters:
    values:
      net.core.somaxconn: 4096
"""

RETURN = r"""
path:
  description: The file that holds the parameters.
  returned: success
  type: str
checksum:
  description: SHA-1 of the file as it is wanted.
  returned: success
  type: str
parameters:
  description: The wanted values, as text.
  returned: success
  type: dict
refused:
  description: For each parameter that could not be set live, why.
  returned: success
  type: dict
changes:
  description: One line for each thing that was changed, or would be in check mode.
  returned: success
  type: list
  elements: str
"""

FILE_MODE = 0o644
HEADER = "# Written by ironlease (role node_tuning); edits are overwritten.\n"


def texts(values: dict[str, Any]) -> dict[str, str]:
    """Return names and values as text, sorted.

    Raises RefusalError for what cannot be a parameter.
    """
    wrong = sorted(name for name, value in values.items() if not _is_parameter(name, value))
    if wrong:
        raise RefusalError(
            found=f"Not a kernel parameter with a value: {', '.join(wrong)}.",
            needed="Names such as net.core.somaxconn, each with a number or a text on one line.",
            next_step="Correct these in the variable that sets `values`, then run again.",
        )
    return {name: " ".join(str(value).split()) for name, value in sorted(values.items())}


def _is_parameter(name: str, value: Any) -> bool:
    is_plain = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return is_name(name) and is_plain and bool(str(value).strip()) and "\n" not in str(value)


def render(parameters: dict[str, str]) -> str:
    """Return the content of the file in sysctl.d."""
    return HEADER + "".join(f"{name} = {value}\n" for name, value in parameters.items())


def set_live(observations: list[Observation]) -> None:
    """Write the live values; when the kernel refuses one, put the others back.

    Raises RefusalError.
    """
    done: list[Observation] = []
    for observation in observations:
        try:
            _write_live(observation.name, observation.wanted)
            done.append(observation)
            _require_kept(observation)
        except OSError as error:
            for earlier in reversed(done):
                if earlier.live is not None:
                    _write_live(earlier.name, earlier.live)
            raise RefusalError(
                found=f"The kernel refuses {observation.name} = {observation.wanted}: {error.strerror or error} "
                f"(it is {observation.live}).",
                needed="A value that this kernel takes.",
                next_step=f"Correct {observation.name} in the variable that sets `values`, then run again.",
            ) from error


def _write_live(name: str, value: str) -> None:
    with path_of(name).open("w", encoding="utf-8") as handle:
        handle.write(value)


def _require_kept(observation: Observation) -> None:
    """Raise OSError when the kernel took the value and keeps another: some round, some clamp, some forget."""
    kept = path_of(observation.name).read_text(encoding="utf-8").strip()
    if not same_value(kept, observation.wanted):
        raise OSError(f"it keeps {kept} instead")


def mend_file(module: AnsibleModule, path: Path, content: str, before: str | None) -> bool:
    """Make the file have this content, mode and owner; return whether anything was, or in check mode would be, done."""
    rewrite = before != content
    if rewrite and not module.check_mode:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=module.tmpdir, delete=False) as handle:
            handle.write(content)
        module.atomic_move(handle.name, str(path))
    if not path.exists():
        return rewrite
    wanted = {"path": str(path), "mode": FILE_MODE, "owner": "root", "group": "root"}
    return module.set_fs_attributes_if_different(module.load_file_common_arguments(wanted), rewrite)


def apply(module: AnsibleModule) -> dict[str, Any]:
    """Do the work and return the module's result.

    Raises RefusalError.
    """
    parameters = texts(module.params["values"])
    path = Path(module.params["path"])
    content = render(parameters)
    observations = [observe(name, value) for name, value in parameters.items()]
    differing = [observation for observation in observations if observation.differs]
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
    if not module.check_mode:
        # Live values first: what the kernel refuses must not wait in a file for the next boot.
        set_live(differing)
    changes = [f"{item.name} = {item.wanted} (was {item.live})" for item in differing]
    if mend_file(module, path, content, before):
        changes.append(f"{path} written")
    return {
        "changed": bool(changes),
        "path": str(path),
        "checksum": hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest(),
        "parameters": parameters,
        "refused": {item.name: item.refused for item in observations if item.refused is not None},
        "changes": changes,
        "diff": [
            {"before_header": str(path), "after_header": str(path), "before": before or "", "after": content},
            {
                "before_header": "live values",
                "after_header": "live values",
                "before": "".join(f"{item.name} = {item.live}\n" for item in differing),
                "after": "".join(f"{item.name} = {item.wanted}\n" for item in differing),
            },
        ],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "values": {"type": "dict", "required": True},
            "path": {"type": "path", "default": "/etc/sysctl.d/90-ironlease.conf"},
        },
        supports_check_mode=True,
    )
    try:
        result = apply(module)
    except RefusalError as refusal:
        fail(module, refusal)
        return
    for name, reason in result["refused"].items():
        module.warn(f"{name} is set from the next boot on where the kernel allows it; now: {reason}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
