"""Mend a virtual environment until it holds the pins: the acting half of the ``python_environment`` module.

An environment is built at its final path, because its scripts carry that path in their first lines; building it aside
and renaming it would leave them pointing nowhere. That is safe here: nobody takes an environment for whole because it
exists, only because every file in it was seen (``ironlease_node.environment``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ansible.module_utils.ironlease_node.environment import (
    Difference,
    EnvironmentBrokenError,
    ask_interpreter,
    installed_distributions,
    normalise,
)
from ansible.module_utils.ironlease_support import Ended, RefusalError, process_name, run

POLL_SECONDS = 1.0
# What `python -m venv` makes first; a folder with only these is a build that was cut off, not somebody's data.
VENV_ENTRIES = {"bin", "include", "lib", "lib64", "pyvenv.cfg", "share", ".gitignore"}
# The host's pip configuration counts, except where it would install somewhere else or ask a question.
PIP_ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_REQUIRE_VIRTUALENV": "0",
    "PIP_USER": "0",
    "PYTHONNOUSERSITE": "1",
}
PIP_INSTALL = [
    "install",
    "--require-hashes",
    "--no-deps",
    # A source distribution would run its own build code and fetch build requirements without a hash.
    "--only-binary=:all:",
    # Byte code is made afterwards, on all processors at once.
    "--no-compile",
    "--no-warn-script-location",
    "--progress-bar=off",
]
# After these no other index helps: another file under the same name, or no room for it.
FINAL_WORDS = ("DO NOT MATCH THE HASHES", "No space left on device", "Disk quota exceeded")
# As in: Retrying (Retry(total=4, ...)) after connection broken by '...('<pip._vendor... object at 0x7f54>: No route')'
_INSIDES = re.compile(r" \(Retry\([^)]*\)\)|<pip\._vendor[^>]*>[:,] ?")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Pin(NamedTuple):
    """One distribution that must be there."""

    name: str
    version: str
    sha256: tuple[str, ...]

    def requirement(self) -> str:
        """Return the line for pip's requirements file."""
        hashes = " ".join(f"--hash=sha256:{digest}" for digest in self.sha256)
        return f"{self.name}=={self.version} {hashes}\n"


def pins_of(packages: list[dict[str, Any]]) -> list[Pin]:
    """Return the pins of a module's ``packages``.

    Raises RefusalError for a pin that is not exact, has no hash, or stands there twice.
    """
    pins = [Pin(item["name"], item["version"], tuple(item["sha256"])) for item in packages]
    wrong = [f"{pin.name}=={pin.version}" for pin in pins if not _is_exact(pin)]
    names = [normalise(pin.name) for pin in pins]
    twice = sorted({name for name in names if names.count(name) > 1})
    if not pins or wrong or twice:
        raise RefusalError(
            found=f"Not a set of exact pins: {', '.join(wrong + twice) or 'the list is empty'}.",
            needed="Each distribution once, with a version and at least one SHA-256 (64 lower-case hex digits).",
            next_step="Correct `packages` in the stack file, then run again.",
        )
    return pins


def _is_exact(pin: Pin) -> bool:
    digests_are_whole = bool(pin.sha256) and all(_SHA256.fullmatch(digest) for digest in pin.sha256)
    return bool(_NAME.fullmatch(pin.name)) and bool(_VERSION.fullmatch(pin.version)) and digests_are_whole


class Builder:
    """Changes one environment. Every method raises RefusalError when it cannot go on."""

    def __init__(self, path: Path, python: Path, index_url: str, timeout_seconds: int, scratch: Path) -> None:
        self._path = path
        self._python = python
        self._index_url = index_url
        self._timeout_seconds = timeout_seconds
        self._deadline_seconds = time.monotonic() + timeout_seconds
        self._scratch = scratch

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the environment's folder, so that a build whose connection was lost is not joined by a second one."""
        self._require_ours()
        self._path.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            while not _try_lock(descriptor):
                if time.monotonic() >= self._deadline_seconds:
                    raise RefusalError(
                        found=f"Another process is building {self._path}.",
                        needed="One build of an environment at a time.",
                        next_step="Wait until it has ended, then run again.",
                    )
                time.sleep(POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def mend(self, pins: list[Pin], observe: Callable[[], list[Difference]]) -> None:
        """Make the environment so that ``observe`` finds no difference; do nothing when it finds none already."""
        differences = observe()
        if not differences:
            return
        self._require_unused()
        if any(difference.subject == "interpreter" for difference in differences) or not self._has_pip():
            self._make_venv()
            # Only now can the distributions be asked for.
            differences = observe()
        subjects = {difference.subject for difference in differences}
        self._drop_unreadable(differences)
        self._install([pin for pin in pins if normalise(pin.name) in subjects])
        self._finish()

    def _has_pip(self) -> bool:
        """Return whether pip is there: a venv whose making stopped at ensurepip has an interpreter and nothing else."""
        return any(distribution.name == "pip" for distribution in installed_distributions(self._site_packages()))

    def _require_ours(self) -> None:
        """Refuse a path where something else lies: an environment is made in a folder that is new, empty or a venv."""
        if not os.path.lexists(self._path):
            return
        entries = {entry.name for entry in self._path.iterdir()} if self._path.is_dir() else {"not a folder"}
        if "pyvenv.cfg" not in entries and not entries <= VENV_ENTRIES:
            raise RefusalError(
                found=f"{self._path} is not a Python environment; it holds {', '.join(sorted(entries)[:3])}.",
                needed="A path of our own for the environment.",
                next_step=f"Move {self._path} aside (on the host), or choose another path, then run again.",
            )

    def _require_unused(self) -> None:
        users = list(_users_of(self._path))
        if users:
            raise RefusalError(
                found=f"{self._path} is in use by {', '.join(process_name(pid) for pid in users[:3])}.",
                needed="No running process in an environment that has to be changed.",
                next_step="Wait until the training has ended, or stop it, then run again.",
            )

    def _make_venv(self) -> None:
        # On an existing environment this keeps what is installed. venv leaves links as they are, wrong ones too.
        for link in (self._path / "bin").glob("python*"):
            if link.is_symlink():
                link.unlink()
        ended = self._run([str(self._python), "-I", "-m", "venv", str(self._path)])
        if ended.status != 0:
            raise RefusalError(
                found=f"{self._python} -m venv failed: {ended.words()}",
                needed=f"{self._python} with its venv and ensurepip modules (Debian: the package python3-venv).",
                next_step="Add the package to host_base_packages, or correct pytorch_python, then run again.",
            )

    def _drop_unreadable(self, differences: list[Difference]) -> None:
        """Remove metadata that pip could not uninstall by: it then installs over what is there."""
        broken = {item.subject for item in differences if item.problem in {"duplicate", "unreadable"}}
        for distribution in installed_distributions(self._site_packages()):
            if normalise(distribution.name) in broken:
                shutil.rmtree(distribution.info_folder)

    def _install(self, pins: list[Pin]) -> None:
        if not pins:
            return
        requirements = self._scratch / "requirements.txt"
        requirements.write_text("".join(pin.requirement() for pin in pins), encoding="utf-8")
        # pip would take a distribution with missing files for installed.
        command = [*PIP_INSTALL, "--force-reinstall", f"--requirement={requirements}"]
        ended = self._pip(command)
        final = any(words in ended.output for words in FINAL_WORDS)
        if ended.status != 0 and self._index_url and not final:
            ended = self._pip([*command, f"--extra-index-url={self._index_url}"])
        if ended.status != 0:
            raise RefusalError(
                found=f"pip install failed: {readable(ended.words(('ERROR', 'WARNING', 'Expected', 'Got')))}",
                needed="Package indexes that the host can reach and that have exactly these wheels: "
                + ", ".join(f"{pin.name}=={pin.version}" for pin in pins),
                next_step="Look at `pip config list` and the route of the host, then run again: "
                "what was downloaded is kept.",
            )

    def _pip(self, arguments: list[str]) -> Ended:
        return self._run([str(self._path / "bin" / "python"), "-I", "-m", "pip", *arguments])

    def _finish(self) -> None:
        """Make byte code, which an unprivileged user could not store, and remove what an uninstallation left aside."""
        for folder in {folder.resolve() for folder in self._site_packages()}:
            for leftover in folder.glob("~*"):
                shutil.rmtree(leftover, ignore_errors=True)
            # Its exit status tells of files that are not meant to compile (templates, tests of old syntax).
            self._run([str(self._path / "bin" / "python"), "-I", "-m", "compileall", "-qq", "-j", "0", str(folder)])

    def _site_packages(self) -> list[Path]:
        try:
            return ask_interpreter(self._path).site_packages
        except EnvironmentBrokenError as error:
            raise RefusalError(
                found=f"The new environment does not work: {error}.",
                needed=f"A Python at {self._python} that can make environments.",
                next_step="Correct pytorch_python, then run again.",
            ) from error

    def _run(self, argv: list[str]) -> Ended:
        try:
            ended = run(argv, max(self._deadline_seconds - time.monotonic(), 1.0), PIP_ENVIRONMENT)
        except OSError as error:
            raise RefusalError(
                found=f"{argv[0]}: {error.strerror}.",
                needed="The Python interpreter that the stack names.",
                next_step="Add its package to host_base_packages, or correct pytorch_python, then run again.",
            ) from error
        if ended.status is None:
            raise RefusalError(
                found=f"The build of {self._path} did not end within {self._timeout_seconds} s: {ended.words()}",
                needed="Package indexes that answer in time.",
                next_step="Choose a nearer index in the host's pip configuration, then run again: "
                "what was downloaded is kept.",
            )
        return ended


def readable(words: str) -> str:
    """Return pip's words without the insides of its network library, and each line once."""
    lines = [_INSIDES.sub("", line) for line in words.splitlines()]
    return "\n".join(dict.fromkeys(lines))


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _users_of(path: Path) -> Iterator[int]:
    """Yield the processes that run from the environment: its interpreter started them, or they mapped its libraries."""
    prefix = f"{path.resolve()}/".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            started_by_it = (entry / "cmdline").read_bytes().startswith((f"{path}/".encode(), prefix))
            if started_by_it or prefix in (entry / "maps").read_bytes():
                yield int(entry.name)
        except OSError:
            # It ended meanwhile, or is a kernel thread.
            continue
