#!/usr/bin/python
# SPDX-License-Identifier: Apache-2.0
"""Give /dev/shm its size at once."""

from __future__ import annotations

from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.ironlease_node.shared_memory import MOUNT_POINT, is_size, live_bytes, wanted_bytes
from ansible.module_utils.ironlease_support import RefusalError, fail, run

DOCUMENTATION = r"""
module: shared_memory
short_description: Give /dev/shm its size at once
description:
  - Mounts C(/dev/shm) again with the wanted size when it has another one. What lies there stays.
  - It does not last beyond the next boot; a unit of systemd's does that.
options:
  size:
    description: The size as mount(8) takes it, C(64G) or C(80%).
    type: str
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
author: ironlease
"""

EXAMPLES = r"""
- name: Share up to 64 GiB
  shared_memory:
    size: 64G
"""

RETURN = r"""
size_bytes:
  description: The wanted size in bytes.
  returned: success
  type: int
changes:
  description: One line when the size was changed, or would be in check mode.
  returned: success
  type: list
  elements: str
"""

REMOUNT_SECONDS = 30


def apply(module: AnsibleModule) -> dict[str, Any]:
    """Do the work and return the module's result.

    Raises RefusalError.
    """
    size: str = module.params["size"]
    try:
        wanted, live = wanted_bytes(size), live_bytes()
    except (ValueError, OSError) as error:
        raise RefusalError(
            found=f"{error}.",
            needed="A size such as 64G or 80%, and a file system at /dev/shm.",
            next_step="Correct the variable that sets `size`, then run again.",
        ) from error
    changes = []
    if not is_size(live, wanted):
        changes.append(f"{MOUNT_POINT}: {wanted} bytes (was {live})")
        if not module.check_mode:
            _remount(size, wanted)
    return {"changed": bool(changes), "size_bytes": wanted, "changes": changes}


def _remount(size: str, wanted: int) -> None:
    ended = run(["mount", "-o", f"remount,size={size}", str(MOUNT_POINT)], REMOUNT_SECONDS, {"LC_ALL": "C.UTF-8"})
    if ended.status != 0 or not is_size(live_bytes(), wanted):
        raise RefusalError(
            found=f"{MOUNT_POINT} could not be mounted again with {size}: {ended.words()}",
            needed="The right to mount, and less than the wanted size in use there.",
            next_step=f"df -h {MOUNT_POINT} (on the host) shows what is in use; then run again.",
        )


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "size": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        result = apply(module)
    except RefusalError as refusal:
        fail(module, refusal)
    else:
        module.exit_json(**result)


if __name__ == "__main__":
    main()
