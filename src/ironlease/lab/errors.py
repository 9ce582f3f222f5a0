"""The lab's own refusals."""

from __future__ import annotations

from ironlease.errors import ExitCode, IronleaseError


class LabError(IronleaseError):
    """The lab could not do what was asked; ``lab.down`` always brings back a clean state."""

    code = "lab"
    exit_code = ExitCode.UNFINISHED


class LabUnavailableError(IronleaseError):
    """This computer cannot run lab hosts, or not yet."""

    code = "lab-unavailable"
    exit_code = ExitCode.USAGE


class MissingToolsError(LabUnavailableError):
    """Programs that the lab starts are not installed; ``packages`` are the Debian packages that hold them."""

    code = "lab-missing-tools"

    def __init__(self, tools: list[str], packages: list[str]) -> None:
        super().__init__(
            found=f"Not installed: {', '.join(tools)}.",
            needed=f"The packages {', '.join(packages)}.",
            next_step=f"apt-get install --yes --no-install-recommends {' '.join(packages)}",
        )
        self.packages = packages
