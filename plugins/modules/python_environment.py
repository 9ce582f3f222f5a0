#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Build a Python environment that holds exactly the pinned distributions."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ironlease_environment_builder import Builder, pins_of
from ansible.module_utils.ironlease_node.environment import Difference, observe_environment
from ansible.module_utils.ironlease_support import RefusalError, fail

DOCUMENTATION = r"""
module: python_environment
short_description: Build a Python environment that holds exactly the pinned distributions
description:
  - Makes a virtual environment at its final path and installs the pins with C(pip install --require-hashes --no-deps),
    wheels only.
  - Decides by observing. Each pin must be there in its version, once, with every file of its RECORD in the recorded
    size, and with the recorded hash where it was changed later. What differs is installed again; what does not is not
    touched. A build that was cut off therefore never counts as whole, and the next run goes on from there.
    Distributions without a pin are the user's and are left alone.
  - pip first runs with the host's own configuration (mirrors, proxies, local wheels). Only when it cannot find a pin
    there does O(index_url) join the indexes; the hashes hold either way.
  - An environment that a running process uses is never changed.
options:
  path:
    description: Folder of the environment.
    type: path
    required: true
  python:
    description: The interpreter to build on.
    type: path
    default: /usr/bin/python3
  packages:
    description: The pins.
    type: list
    elements: dict
    required: true
    options:
      name:
        description: Name of the distribution.
        type: str
        required: true
      version:
        description: Its exact version.
        type: str
        required: true
      sha256:
        description: SHA-256 of each wheel that may be installed.
        type: list
        elements: str
        required: true
  index_url:
    description: A package index to add when the host's own configuration lacks a pin. Empty for none.
    type: str
    default: ""
  timeout_seconds:
    description: How long the whole build may take, waiting for another build of the same environment included.
    type: int
    default: 3600
  thorough:
    description: Whether to compare the hashes of all files too, which reads every byte of them.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
author: ironlease
"""

EXAMPLES = r"""
- name: Build an environment with one distribution
  python_environment:
    path: /opt/ironlease/envs/example
    packages:
      - name: idna
        version: "{{ idna_version }}"
        sha256: ["{{ idna_sha256 }}"]
"""

RETURN = r"""
path:
  description: Folder of the environment.
  returned: success
  type: str
differences:
  description: How the environment differed from the pins before this task.
  returned: success
  type: list
  elements: dict
  sample: [{"subject": "torch", "problem": "missing", "detail": "2.0 is not installed"}]
changes:
  description: One line for each thing that was changed, or would be in check mode.
  returned: success
  type: list
  elements: str
"""


def describe(differences: list[Difference]) -> list[str]:
    """Return one line for each difference."""
    return [f"{difference.subject}: {difference.detail}" for difference in differences]


def apply(module: AnsibleModule) -> dict[str, Any]:
    """Do the work and return the module's result.

    Raises RefusalError.
    """
    pins = pins_of(module.params["packages"])
    path = Path(module.params["path"])
    python = Path(module.params["python"])
    versions = {pin.name: pin.version for pin in pins}
    observe = partial(observe_environment, path, versions, python, module.params["thorough"])
    is_new = not path.exists()
    differences = observe()
    if differences and not module.check_mode:
        with tempfile.TemporaryDirectory(dir=module.tmpdir) as scratch:
            builder = Builder(path, python, module.params["index_url"], module.params["timeout_seconds"], Path(scratch))
            # Whoever held the environment until now may have built just this: mend() looks again.
            with builder.alone():
                builder.mend(pins, observe)
        _require_none(observe())
    changes = [f"new, with {len(pins)} packages"] if is_new else describe(differences)
    return {
        "changed": bool(differences),
        "path": str(path),
        "differences": [difference._asdict() for difference in differences],
        "changes": changes,
        "diff": {
            "before_header": str(path),
            "after_header": str(path),
            "before": "".join(f"{line}\n" for line in changes),
            "after": "".join(f"{pin.name} {pin.version}\n" for pin in pins) if changes else "",
        },
    }


def _require_none(differences: list[Difference]) -> None:
    if differences:
        raise RefusalError(
            found="pip ended well, but the environment still differs: " + "; ".join(describe(differences)),
            needed="An environment with exactly the pins.",
            next_step="Run again; if it stays so, the disk or the wheel is at fault: move the environment aside.",
        )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "python": {"type": "path", "default": "/usr/bin/python3"},
            "packages": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "name": {"type": "str", "required": True},
                    "version": {"type": "str", "required": True},
                    "sha256": {"type": "list", "elements": "str", "required": True, "no_log": False},
                },
            },
            "index_url": {"type": "str", "default": ""},
            "timeout_seconds": {"type": "int", "default": 3600},
            "thorough": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    # The environment is for other users, whatever root's umask is.
    os.umask(0o022)
    try:
        result = apply(module)
    except RefusalError as refusal:
        fail(module, refusal)
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
