"""Read kernel parameters (sysctl) and say what the kernel permits. Shared with Ansible's ``kernel_parameters`` module.

Standard library only, and no import from this package: the module carries this one file to the host.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

PROC_SYS = Path("/proc/sys")
_NAME = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)+")


class Observation(NamedTuple):
    """One parameter as it is. ``refused`` is why the kernel would not take ``wanted``, None when it may be written.

    A parameter counts as it should be when the live value is ``wanted``, or when this kernel refuses any change.
    """

    name: str
    wanted: str
    live: str | None
    refused: str | None

    @property
    def differs(self) -> bool:
        """Whether writing the parameter is possible and needed."""
        return self.refused is None and not same_value(self.live, self.wanted)


def is_name(name: str) -> bool:
    """Return whether ``name`` looks like a parameter: two or more words with dots (or slashes) between them."""
    return _NAME.fullmatch(name) is not None


def path_of(name: str, root: Path = PROC_SYS) -> Path:
    """Return the parameter's file. Slashes separate where an interface's name has dots, as in sysctl.d(5)."""
    return root / (name if "/" in name else name.replace(".", "/"))


def same_value(one: str | None, other: str | None) -> bool:
    """Compare two values as the kernel reads them: fields between any white space."""
    return one is not None and other is not None and one.split() == other.split()


def observe(name: str, wanted: str, root: Path = PROC_SYS) -> Observation:
    """Observe one parameter. The answer about ``refused`` holds for the calling user; ask as root."""
    path = path_of(name, root)
    try:
        live = path.read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return Observation(name, wanted, None, "this kernel has no such parameter")
    except OSError as error:
        # Some parameters can only be written; what the kernel says to that decides.
        return Observation(name, wanted, None, None if os.access(path, os.W_OK) else str(error.strerror))
    # A container and a network namespace show parameters of the whole machine read-only, to root as well.
    refused = None if same_value(live, wanted) or os.access(path, os.W_OK) else "read-only for this host's root"
    return Observation(name, wanted, live, refused)
