"""The one file: the same bytes for the same sources, and it runs on the distribution's own Python."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import ironlease_node
from ironlease import agent_archive

PACKAGE = Path(ironlease_node.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    return path, agent_archive.build(path)


def test_same_sources_give_the_same_bytes(archive, tmp_path):
    copy = tmp_path / "ironlease_node"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "__pycache__").mkdir()
    (copy / "__pycache__" / "x.pyc").write_bytes(b"left by somebody's interpreter")
    for number, path in enumerate(sorted(copy.rglob("*.py"))):
        path.chmod(0o600)
        os.utime(path, (number, number))

    digest = agent_archive.build(tmp_path / "again.pyz", package=copy)

    assert digest == archive[1]
    assert (tmp_path / "again.pyz").read_bytes() == archive[0].read_bytes()


def test_other_sources_give_other_bytes(archive, tmp_path):
    copy = tmp_path / "ironlease_node"
    shutil.copytree(PACKAGE, copy)
    (copy / "hold.py").write_text((copy / "hold.py").read_text() + "\n")

    assert agent_archive.build(tmp_path / "other.pyz", package=copy) != archive[1]


def test_entries_are_sorted_and_hold_no_time_of_their_own(archive):
    with zipfile.ZipFile(archive[0]) as opened:
        entries = opened.infolist()

    names = [entry.filename for entry in entries]
    assert names == sorted(names)
    assert "ironlease_node/training/ddp.py" in names
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}
    assert {entry.external_attr >> 16 for entry in entries} == {0o100644}


def test_runs_on_the_distributions_python(archive):
    answered = subprocess.run(
        [SYSTEM_PYTHON, "-I", str(archive[0]), "probe"], capture_output=True, timeout=60, check=True, text=True
    )

    assert json.loads(answered.stdout)["agent"]["sha256"] == archive[1]


def test_runs_from_memory(archive):
    """The control side sends the file into an anonymous memory file: there is no path that ends in .pyz."""
    script = (
        "import os, sys\n"
        "file = os.memfd_create('agent', 0)\n"
        "os.write(file, open(sys.argv[1], 'rb').read())\n"
        "os.execv(sys.executable, [sys.executable, '-I', '/proc/self/fd/%d' % file, 'manifest'])\n"
    )
    answered = subprocess.run(
        [SYSTEM_PYTHON, "-I", "-c", script, str(archive[0])],
        input='{"environment": null}',
        capture_output=True,
        timeout=60,
        check=True,
        text=True,
    )

    assert json.loads(answered.stdout)["agent"]["sha256"] == archive[1]


def test_refusal_exit_status(archive):
    answered = subprocess.run(
        [SYSTEM_PYTHON, "-I", str(archive[0]), "observe"],
        input="x",
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )

    assert answered.returncode == 2
    assert json.loads(answered.stdout)["code"] == "bad-input"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_python_39_and_nothing_but_its_standard_library(path):
    tree = ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))

    allowed = {"ironlease_node", *sys.stdlib_module_names}
    if path.parent.name == "training":
        allowed.add("torch")
    assert _imported(tree) <= allowed
    assert _newer_than_39(tree) == []


def _imported(tree: ast.Module) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").partition(".")[0])
    return names


# What the grammar cannot tell: names and arguments of the library that came after Python 3.9.
NEWER_NAMES = {("datetime", "UTC"), ("itertools", "pairwise"), ("itertools", "batched"), ("inspect", "get_annotations")}
NEWER_MODULES = {"tomllib"}
NEWER_TYPING = {"Self", "TypeAlias", "Never", "ParamSpec", "override", "assert_never", "NotRequired", "Required"}
NEWER_ARGUMENTS = {("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only"), ("Popen", "process_group")}


def _newer_than_39(tree: ast.Module) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            if node.module == "typing":
                found += sorted(names & NEWER_TYPING)
            found += [name for name in names if (node.module, name) in NEWER_NAMES]
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += sorted(_imported(ast.Module([node], [])) & NEWER_MODULES)
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found += [f"{called}({word.arg}=)" for word in node.keywords if (called, word.arg) in NEWER_ARGUMENTS]
    return found


def test_the_39_check_sees_what_is_newer():
    source = "import tomllib\nfrom datetime import UTC\nfrom typing import Self\nzip([], [], strict=True)\n"

    assert sorted(_newer_than_39(ast.parse(source))) == ["Self", "UTC", "tomllib", "zip(strict=)"]


def test_version_is_the_projects():
    project = tomllib.loads((PACKAGE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))

    assert ironlease_node.__version__ == project["project"]["version"]
