"""Units, as systemd itself describes them: one call for all."""

from __future__ import annotations

from typing import NamedTuple

from ironlease_node.host import Unreadable

PROPERTIES = ("LoadState", "ActiveState", "UnitFileState")

# `static` and `generated` units are started by others, which is all that enabling would arrange.
ENABLED_STATES = {"alias", "enabled", "generated", "static"}
ACTIVE_STATES = {"active", "reloading"}

_SUFFIXES = (
    ".automount",
    ".device",
    ".mount",
    ".path",
    ".scope",
    ".service",
    ".slice",
    ".socket",
    ".swap",
    ".target",
    ".timer",
)


class UnitState(NamedTuple):
    """The three properties that matter, in systemd's own words."""

    load: str
    active: str
    unit_file: str

    def as_found(self) -> dict[str, bool]:
        """Return the state in the footprint's words."""
        return {
            "enabled": self.unit_file in ENABLED_STATES,
            "active": self.active in ACTIVE_STATES,
            "masked": self.load == "masked",
        }


def unit_name(name: str) -> str:
    """Return the full name: systemctl takes `ssh` for `ssh.service`."""
    return name if name.endswith(_SUFFIXES) else f"{name}.service"


def show_command(names: list[str]) -> list[str]:
    """Return the command that describes all units, one block each, in this order."""
    return ["systemctl", "show", f"--property={','.join(PROPERTIES)}", "--", *names]


def parse_show(text: str, names: list[str]) -> dict[str, UnitState]:
    """Parse blocks of `Property=value` with an empty line between them.

    Raises Unreadable when there is not one whole block for each unit.
    """
    blocks = [dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.split("\n\n")]
    blocks = [block for block in blocks if block]
    if len(blocks) != len(names) or any(set(PROPERTIES) - set(block) for block in blocks):
        raise Unreadable(f"systemctl: {len(blocks)} whole answers about {len(names)} units")
    return {name: UnitState(*(block[key] for key in PROPERTIES)) for name, block in zip(names, blocks)}
