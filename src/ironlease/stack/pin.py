"""Writes the pins of a stack file anew: ``python -m ironlease.stack.pin torch-cpu [--find-links FOLDER]``.

From ``python.requires`` uv resolves one set of versions that fits every interpreter of the stack, with the hashes of
the wheels for them; the block between the two marker lines of the file is replaced. Review the difference before you
commit it. docs/developer/add-a-stack.md shows the whole way.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from ironlease import files
from ironlease.errors import UnfinishedError, UsageError
from ironlease.paths import Project
from ironlease.schema import read_yaml

BEGIN = "  # pins: begin (written by `python -m ironlease.stack.pin`; change `requires` and run it again)"
END = "# pins: end"
# The oldest C library among the supported distributions is Ubuntu 22.04's 2.35; wheels ask for 2.28 at most.
_PLATFORM = "x86_64-manylinux_2_28"
_RESOLVE_TIMEOUT_SECONDS = 600
_READ_TIMEOUT_SECONDS = 60
_BLOCK_BYTES = 1 << 20


@dataclass
class Pin:
    """One package: its version, and its wheels as ``{file name: (sha256, URL)}``."""

    name: str
    version: str
    wheels: dict[str, tuple[str, str]] = field(default_factory=dict)


def main(arguments: list[str]) -> int:
    """Pin one stack; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ironlease.stack.pin", description=__doc__)
    parser.add_argument("stack")
    parser.add_argument("--find-links", action="append", default=[], help="a folder or page that has wheels")
    options = parser.parse_args(arguments)
    path = Project.here().stacks / f"{options.stack}.yml"
    document = read_yaml(path)
    python = document["python"]
    interpreters = sorted(
        {entry["python"].removeprefix("/usr/bin/python") for entry in document["distributions"]},
        key=lambda version: [int(part) for part in version.split(".")],
    )
    pins = resolve(python["requires"], interpreters, python.get("index_url"), options.find_links)
    files.write_atomically(path, replace_block(path.read_text(encoding="utf-8"), render(pins)), mode=0o644)
    print(f"{path}: {len(pins)} packages for Python {', '.join(interpreters)}", file=sys.stderr)  # noqa: T201 - a tool
    return 0


def resolve(requires: list[str], interpreters: list[str], index_url: str | None, find_links: list[str]) -> list[Pin]:
    """Return one pin for each package, with wheels for every interpreter (the oldest one chooses the versions).

    Raises UnfinishedError when uv finds no solution, UsageError when a version has no wheel for an interpreter.
    """
    pins: dict[str, Pin] = {}
    for interpreter in interpreters:
        constraints = [f"{pin.name}=={pin.version}" for pin in pins.values()]
        command = compile_command(interpreter, index_url, find_links)
        for package in _run_uv(command, requires, constraints)["packages"]:
            pin = pins.setdefault(package["name"], Pin(package["name"], package["version"]))
            if not package.get("wheels"):
                raise UsageError(
                    code="no-wheel",
                    found=f"{pin.name} {pin.version} has no wheel for Python {interpreter}.",
                    needed="A wheel: a source distribution runs its own code while it is built.",
                    next_step="Require another version of it in `python.requires`.",
                )
            for wheel in package["wheels"]:
                name = unquote(urlsplit(wheel["url"]).path.rpartition("/")[2])
                pin.wheels[name] = (wheel["hashes"]["sha256"], wheel["url"])
    return [pins[name] for name in sorted(pins)]


def compile_command(interpreter: str, index_url: str | None, find_links: list[str]) -> list[str]:
    """Return the uv command that resolves for one interpreter; requirements come on stdin."""
    command = ["uv", "pip", "compile", "-", "--format", "pylock.toml", "--only-binary", ":all:"]
    command += ["--python-version", interpreter, "--python-platform", _PLATFORM, "--no-python-downloads"]
    for place in find_links:
        command += ["--find-links", place]
    if index_url is not None and not find_links:
        # Only what the default index lacks (such as a local version) may come from there.
        command += ["--extra-index-url", index_url, "--index-strategy", "unsafe-best-match"]
    return command


def _run_uv(command: list[str], requires: list[str], constraints: list[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ironlease-pin-") as folder:
        constraint_file = Path(folder) / "constraints.txt"
        constraint_file.write_text("\n".join(constraints), encoding="utf-8")
        completed = subprocess.run(
            [*command, "--constraints", str(constraint_file)],
            input="\n".join(requires),
            capture_output=True,
            text=True,
            timeout=_RESOLVE_TIMEOUT_SECONDS,
            check=False,
        )
    if completed.returncode != 0:
        raise UnfinishedError(
            code="no-solution",
            found=f"uv found no versions for {', '.join(requires)}: {completed.stderr.strip()[-800:]}",
            needed="Requirements that fit together on every interpreter of the stack.",
            next_step="Change `python.requires`, or give the place of a missing wheel with --find-links.",
        )
    return tomllib.loads(completed.stdout)


def render(pins: list[Pin]) -> list[str]:
    """Return the lines of the ``packages`` block, file names as comments."""
    lines = ["  packages:"]
    for pin in pins:
        sizes = [wheel_sizes(url) for _, url in pin.wheels.values()]
        lines += [
            f"    - name: {pin.name}",
            f'      version: "{pin.version}"',
            f"      download_bytes: {max(size for size, _ in sizes)}",
            f"      installed_bytes: {max(size for _, size in sizes)}",
            "      sha256:",
        ]
        lines += [f"        - {sha256} # {name}" for name, (sha256, _) in sorted(pin.wheels.items())]
    return lines


def replace_block(text: str, block: list[str]) -> str:
    """Return ``text`` with the lines between the markers replaced; raises UsageError without markers."""
    lines = text.splitlines()
    if BEGIN not in lines or END not in lines:
        raise UsageError(
            code="no-markers",
            found="The stack file has no marker lines for its pins.",
            needed=f"The lines {BEGIN.strip()!r} and {END.strip()!r} under `python:`.",
            next_step="Copy them from stacks/torch-cpu.yml",
        )
    return "\n".join([*lines[: lines.index(BEGIN) + 1], *block, *lines[lines.index(END) :]]) + "\n"


def wheel_sizes(url: str) -> tuple[int, int]:
    """Return the bytes of a wheel and of its content, reading only the archive's directory."""
    if urlsplit(url).scheme == "file":
        path = Path(unquote(urlsplit(url).path))
        with zipfile.ZipFile(path) as archive:
            return path.stat().st_size, sum(entry.file_size for entry in archive.infolist())
    remote = _RemoteFile(url)
    with zipfile.ZipFile(io.BufferedReader(remote, _BLOCK_BYTES)) as archive:
        return remote.size, sum(entry.file_size for entry in archive.infolist())


class _RemoteFile(io.RawIOBase):
    """A file on a web server, read in the pieces that are asked for."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._position = 0
        request = urllib.request.Request(url, method="HEAD")  # noqa: S310 - an https URL from the index's own answer
        with urllib.request.urlopen(request, timeout=_READ_TIMEOUT_SECONDS) as answer:  # noqa: S310
            self.size = int(answer.headers["Content-Length"])

    def readable(self) -> bool:
        """Return True: this is a file to read."""
        return True

    def seekable(self) -> bool:
        """Return True: any part can be asked for."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset from the start, from here or from the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill ``buffer`` from the current position; return the number of bytes."""
        end = min(self._position + len(buffer), self.size) - 1
        if end < self._position:
            return 0
        request = urllib.request.Request(self._url, headers={"Range": f"bytes={self._position}-{end}"})  # noqa: S310
        with urllib.request.urlopen(request, timeout=_READ_TIMEOUT_SECONDS) as answer:  # noqa: S310
            data: bytes = answer.read(len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
