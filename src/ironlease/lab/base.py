"""The base of all lab hosts: a fresh minimal system of this computer's own release, built once and never written again.

It is what a seller hands over: systemd, sshd, Python, apt; nothing that provisioning is there to install.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from ironlease.lab.cgroups import ControlGroup
from ironlease.lab.disk import check_space, remove_tree
from ironlease.lab.errors import LabError, LabUnavailableError
from ironlease.lab.inheritance import Inheritance
from ironlease.lab.instance import CACHE_ROOT, RUN_ROOT
from ironlease.lab.processes import last_lines, run, tool_path

PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "sudo",
    "ca-certificates",
    "kmod",
    "udev",
    "cron",
    "procps",
)
BUILD_SECONDS = 900.0
BASES = CACHE_ROOT / "bases"
# Held while bases are made, removed, or given to a host. An instance cannot have this name.
CACHE_LOCK = RUN_ROOT / ".cache.lock"
_NEEDED_BYTES = 2 * 1024**3
_APT_OPTIONS_FILE = "/etc/apt/apt.conf.d/50inherited"
_LOCAL_SOURCES_HOOK = "/usr/share/mmdebstrap/hooks/file-mirror-automount"
_CERTIFICATE_FOLDER = "usr/local/share/ca-certificates"


@dataclass(frozen=True)
class BaseRecipe:
    """Everything that determines a base."""

    distribution: str
    release: str
    architecture: str
    inheritance: Inheritance

    @property
    def digest(self) -> str:
        """The name of the base in the cache: another recipe, or another version of this builder, is another base."""
        apt = self.inheritance.apt
        parts = {
            "distribution": self.distribution,
            "release": self.release,
            "architecture": self.architecture,
            "packages": PACKAGES,
            "apt_files": {name: hashlib.sha256(text).hexdigest() for name, text in apt.files.items()},
            "apt_options": apt.options,
            "certificates": self.inheritance.certificates,
            "builder": hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def folder(self) -> Path:
        """Where the finished base lies; it appears there in one step."""
        return base_folder(self.digest)


def base_folder(digest: str) -> Path:
    """Return the place of the base ``digest``."""
    return BASES / digest


def recipe_for(inheritance: Inheritance, os_release: Mapping[str, str]) -> BaseRecipe:
    """Return the recipe of a base like this computer.

    Raises LabUnavailableError where the computer is not of the Debian family.
    """
    family = {os_release.get("ID", ""), *os_release.get("ID_LIKE", "").split()}
    release = os_release.get("VERSION_CODENAME", "")
    if "debian" not in family or not release:
        raise LabUnavailableError(
            code="lab-distribution",
            found=f"This computer runs {os_release.get('PRETTY_NAME', 'an unknown system')}.",
            needed="Debian or Ubuntu, because lab hosts are made from the computer's own package sources.",
            next_step="invoke init (it describes a real host)",
        )
    return BaseRecipe(os_release.get("ID", ""), release, platform.machine(), inheritance)


def ensure_base(recipe: BaseRecipe, group: ControlGroup, label: str, progress: Callable[[str], None]) -> Path:
    """Return the finished base of ``recipe``, and build it first where it is not cached.

    The caller holds ``CACHE_LOCK``. ``group`` gets the build's processes; ``label`` names the half-built folder, so
    that ``discard_unfinished`` finds it. Raises LabError when the build fails, with the end of its log.
    """
    if recipe.folder.is_dir():
        return recipe.folder
    BASES.mkdir(parents=True, exist_ok=True)
    check_space(BASES, _NEEDED_BYTES, "the base of the lab hosts")
    progress(f"building the base of all lab hosts ({recipe.release}): once, one or two minutes")
    started = time.monotonic()
    work = _work_folder(label)
    discard_unfinished(label)
    try:
        work.mkdir()
        _bootstrap(recipe, work, group)
        _finish(recipe, work / "root")
        (work / "root").rename(recipe.folder)
    finally:
        group.kill()
        group.remove()
        discard_unfinished(label)
    progress(f"built the base in {time.monotonic() - started:.0f} s; it is kept in {recipe.folder}")
    return recipe.folder


def remove_unused_bases(used: Set[str], progress: Callable[[str], None]) -> None:
    """Remove all cached bases but those in ``used``. The caller holds ``CACHE_LOCK``."""
    for folder in sorted(BASES.glob("[!.]*")):
        if folder.name in used:
            progress(f"kept {folder}: another lab uses it")
        else:
            remove_tree(folder)
            progress(f"removed {folder}")


def discard_unfinished(label: str) -> None:
    """Remove what a build that did not end well has left. Its processes must have ended."""
    remove_tree(_work_folder(label))


def _work_folder(label: str) -> Path:
    return BASES / f".building-{label}"


def bootstrap_command(recipe: BaseRecipe, folder: Path, sources: list[str], apt_options: str) -> list[str]:
    """Return the mmdebstrap command for ``recipe``."""
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--format=directory",
        f"--include={','.join(PACKAGES)}",
        f"--aptopt={apt_options}",
        # Shows the folders of local sources inside the new system while packages are installed.
        *([f"--hook-dir={_LOCAL_SOURCES_HOOK}"] if recipe.inheritance.apt.folders else []),
        recipe.release,
        str(folder),
        *sources,
    ]


def _bootstrap(recipe: BaseRecipe, work: Path, group: ControlGroup) -> None:
    group.create()
    sources = _write_sources(recipe.inheritance, work)
    options = work / "apt.conf"
    options.write_text("\n".join(recipe.inheritance.apt.options) + "\n", encoding="utf-8")
    log = work / "log"
    reason = ""
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                group.joining(bootstrap_command(recipe, work / "root", sources, str(options))),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_build_environment(),
                timeout=BUILD_SECONDS,
                start_new_session=True,
                check=False,
            )
            if done.returncode != 0:
                reason = f"exit code {done.returncode}"
        except subprocess.TimeoutExpired:
            reason = f"still running after {BUILD_SECONDS:g} s"
    if reason:
        raise LabError(
            code="lab-base-build",
            found=f"mmdebstrap failed ({reason}): {last_lines(log.read_text(errors='replace'))}.",
            needed="Package sources that this computer can reach and trusts.",
            next_step="apt-get update",
        )


def _build_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return {**kept, "PATH": tool_path(), "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}


def _write_sources(inheritance: Inheritance, work: Path) -> list[str]:
    """Write the package sources as files of their own, as mmdebstrap takes them."""
    written = []
    for name, content in sorted(inheritance.apt.sources.items()):
        path = work / Path(name).name
        path.write_bytes(content)
        written.append(str(path))
    return written


def _finish(recipe: BaseRecipe, folder: Path) -> None:
    """Turn the bare system into what a seller hands over."""
    shutil.rmtree(folder / "etc/apt/sources.list.d", ignore_errors=True)
    (folder / "etc/apt/sources.list").unlink(missing_ok=True)
    files = dict(recipe.inheritance.apt.files)
    files[_APT_OPTIONS_FILE] = ("\n".join(recipe.inheritance.apt.options) + "\n").encode()
    for name, content in files.items():
        path = folder / name[1:]
        if name.startswith("/usr/") and path.exists():
            continue  # a key that the base's own packages brought
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for number, certificate in enumerate(recipe.inheritance.certificates):
        path = folder / _CERTIFICATE_FOLDER / f"inherited-{number}.crt"
        path.write_text(certificate, encoding="utf-8")
    if recipe.inheritance.certificates:
        run(["chroot", str(folder), "update-ca-certificates"], limit_seconds=120)
    # Each host gets the lab's key, so that it is known from the start; a key in here would differ from base to base.
    for key in (folder / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    # Empty: each host makes an identity of its own at its first boot.
    (folder / "etc/machine-id").write_text("", encoding="ascii")
    for name in ("etc/hostname", "etc/resolv.conf", "var/lib/dbus/machine-id"):
        with contextlib.suppress(FileNotFoundError):
            (folder / name).unlink()
