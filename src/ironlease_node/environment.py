"""Observe a Python environment: are the pinned distributions there, whole, and the only ones of their names?

The same code answers on both ways: the agent's ``observe`` command imports it, and so does Ansible's
``python_environment`` module (through ``plugins/module_utils``). It needs nothing but the standard library and stands
alone: no import from this package.

What counts is what lies on the disk: the interpreter that really starts, the metadata that each distribution installed,
and the files that its RECORD names (https://packaging.python.org/en/latest/specifications/recording-installed-packages/).
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

# A cold interpreter on a busy machine needs a second or two; one that needs longer than this does not work.
INTERPRETER_TIMEOUT_SECONDS = 60
# pip writes the RECORD last, so that the kernel's time of change of every file lies before the RECORD's own.
SETTLED_SECONDS = 2.0
# Enough to recognise what is wrong; the rest would only fill the screen.
NAMED_FILES = 3

_ASK_INTERPRETER = (
    "import json, sys, sysconfig; "
    "print(json.dumps({'version': '%d.%d.%d' % sys.version_info[:3], 'prefix': sys.prefix, "
    "'site_packages': [sysconfig.get_path('purelib'), sysconfig.get_path('platlib')]}))"
)


class Difference(NamedTuple):
    """One way in which an environment is not as it should be.

    ``subject`` is a normalised distribution name or ``interpreter``; ``problem`` is one of ``absent`` (no environment),
    ``interpreter``, ``missing``, ``version``, ``duplicate``, ``unreadable`` and ``files``.
    """

    subject: str
    problem: str
    detail: str


class Interpreter(NamedTuple):
    """What an environment's own interpreter says about itself."""

    version: str
    prefix: Path
    site_packages: list[Path]


class Distribution(NamedTuple):
    """One installed distribution, as its own metadata names it."""

    name: str
    version: str
    info_folder: Path


class EnvironmentBrokenError(Exception):
    """The environment's interpreter is not there, does not start, or belongs to another environment."""


def normalise(name: str) -> str:
    """Return a distribution name in the one spelling that counts as equal (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def ask_interpreter(path: Path) -> Interpreter:
    """Start the interpreter of the environment at ``path`` and return what it says about itself.

    Raises EnvironmentBrokenError when it does not answer or does not belong to this environment.
    """
    executable = path / "bin" / "python"
    try:
        answer = subprocess.run(
            # -I: neither the caller's PYTHON* variables nor its folder may change the answer.
            [str(executable), "-I", "-c", _ASK_INTERPRETER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=INTERPRETER_TIMEOUT_SECONDS,
            check=False,
        )
    except OSError as error:
        raise EnvironmentBrokenError(f"{executable}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise EnvironmentBrokenError(f"{executable} did not answer within {INTERPRETER_TIMEOUT_SECONDS} s") from error
    if answer.returncode != 0:
        words = answer.stderr.decode("utf-8", "replace").strip().splitlines() or ["no message"]
        raise EnvironmentBrokenError(f"{executable} exited with {answer.returncode}: {words[-1]}")
    try:
        said = json.loads(answer.stdout.decode("utf-8"))
        interpreter = Interpreter(
            version=said["version"],
            prefix=Path(said["prefix"]),
            site_packages=[Path(folder) for folder in said["site_packages"]],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise EnvironmentBrokenError(f"{executable} gave no readable answer") from error
    if interpreter.prefix.resolve() != path.resolve():
        raise EnvironmentBrokenError(f"{executable} belongs to {interpreter.prefix}")
    return interpreter


def installed_distributions(site_packages: Iterable[Path]) -> list[Distribution]:
    """Return every distribution in these folders, sorted by name.

    Folders that pip moved aside in the middle of its work (``~name``) are not distributions.
    """
    # purelib and platlib are often one folder under two names: the resolved path counts once.
    folders = {
        entry.resolve()
        for folder in site_packages
        for entry in folder.glob("*.dist-info")
        if not entry.name.startswith("~")
    }
    return sorted(_read_metadata(folder) for folder in folders)


def observe_environment(
    path: Path,
    pins: Mapping[str, str],
    python: Path | None = None,
    thorough: bool = False,
) -> list[Difference]:
    """Return how the environment at ``path`` differs from ``pins`` (name -> exact version); empty when it does not.

    ``python`` is the interpreter it must be built on; None accepts any. Files are compared by size, and also by hash
    when they were changed after their RECORD was written, or when ``thorough``, which reads every byte of all of them.
    Distributions without a pin are not looked at.
    """
    if not os.path.lexists(path):
        return [Difference("interpreter", "absent", f"{path} is not there")]
    try:
        interpreter = ask_interpreter(path)
    except EnvironmentBrokenError as error:
        return [Difference("interpreter", "interpreter", str(error))]
    differences = _interpreter_differences(path, python)
    by_name: dict[str, list[Distribution]] = {}
    for distribution in installed_distributions(interpreter.site_packages):
        by_name.setdefault(normalise(distribution.name), []).append(distribution)
    for name, version in sorted(pins.items()):
        difference = _judge(normalise(name), version, by_name.get(normalise(name), []), thorough)
        if difference is not None:
            differences.append(difference)
    return differences


def _interpreter_differences(path: Path, python: Path | None) -> list[Difference]:
    if python is None:
        return []
    actual = (path / "bin" / "python").resolve()
    wanted = python.resolve()
    if actual == wanted:
        return []
    return [Difference("interpreter", "interpreter", f"runs {actual}, not {wanted}")]


def _judge(name: str, version: str, found: list[Distribution], thorough: bool) -> Difference | None:
    if not found:
        return Difference(name, "missing", f"{version} is not installed")
    if len(found) > 1:
        versions = ", ".join(distribution.version for distribution in found)
        return Difference(name, "duplicate", f"installed more than once: {versions}")
    distribution = found[0]
    if not _is_version(distribution.version, version):
        return Difference(name, "version", f"{distribution.version} is installed, not {version}")
    return _compare_files(name, distribution, thorough)


def _is_version(installed: str, pinned: str) -> bool:
    """Return whether the version is the pinned one; a pin without a local part takes any local part, as pip does."""
    return installed == pinned or ("+" not in pinned and installed.partition("+")[0] == pinned)


def _read_metadata(info_folder: Path) -> Distribution:
    """Return name and version from METADATA; where that cannot be read, the folder's name and ``unknown``."""
    fields: dict[str, str] = {}
    try:
        with (info_folder / "METADATA").open(encoding="utf-8", errors="replace") as handle:
            for line in handle:
                key, separator, value = line.partition(":")
                if not separator or fields.keys() >= {"Name", "Version"}:
                    break
                fields.setdefault(key, value.strip())
    except OSError:
        pass
    return Distribution(
        name=fields.get("Name") or info_folder.name.partition("-")[0],
        version=fields.get("Version") or "unknown",
        info_folder=info_folder,
    )


def _compare_files(name: str, distribution: Distribution, thorough: bool) -> Difference | None:
    """Compare a distribution's files with its RECORD."""
    own_record = f"{distribution.info_folder.name}/RECORD"
    try:
        with (distribution.info_folder / "RECORD").open(encoding="utf-8", newline="") as handle:
            rows = [row for row in csv.reader(handle) if row]
            recorded_at = os.fstat(handle.fileno()).st_ctime
    except (OSError, ValueError, csv.Error) as error:
        return Difference(name, "unreadable", f"its RECORD cannot be read: {error}")
    # A RECORD names itself; one that does not was cut off while it was written.
    if own_record not in (row[0] for row in rows):
        return Difference(name, "unreadable", "its RECORD is not complete")
    site_packages = distribution.info_folder.parent
    wrong = [row[0] for row in rows if not _file_as_recorded(site_packages, row, 0.0 if thorough else recorded_at)]
    if not wrong:
        return None
    named = ", ".join(wrong[:NAMED_FILES])
    return Difference(name, "files", f"{len(wrong)} of {len(rows)} files missing or changed: {named}")


def _file_as_recorded(site_packages: Path, row: list[str], recorded_at: float) -> bool:
    """Return whether a file is as its row says; one that was changed after ``recorded_at`` is read to know that.

    The time of change (ctime) is the kernel's own, which nobody sets. It never proves that a file is right, it only
    says which ones need reading: a copied environment is read as a whole.
    """
    relative, recorded_hash, recorded_size = [*row, "", ""][:3]
    # Python writes and replaces its own byte code; it is no part of what was delivered.
    if relative.endswith(".pyc"):
        return True
    path = site_packages / relative
    try:
        status = path.stat()
    except OSError:
        return False
    if recorded_size and str(status.st_size) != recorded_size:
        return False
    is_settled = status.st_ctime <= recorded_at + SETTLED_SECONDS
    return is_settled or not recorded_hash or _hash_of(path, recorded_hash) == recorded_hash


def _hash_of(path: Path, recorded_hash: str) -> str:
    """Return the hash of a file in RECORD's spelling, by the algorithm that ``recorded_hash`` names."""
    algorithm = recorded_hash.partition("=")[0]
    if algorithm not in hashlib.algorithms_guaranteed:
        return "unknown algorithm"
    digest = hashlib.new(algorithm)
    with path.open("rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return f"{algorithm}={base64.urlsafe_b64encode(digest.digest()).rstrip(b'=').decode()}"
