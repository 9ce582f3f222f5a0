"""Who may import whom: the rules of docs/developer/architecture.md, read from the source itself."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

# The floors from the bottom; what is not named lives on the floor called MIDDLE.
FLOORS = (
    {"errors", "paths", "files", "redact", "suggest", "__init__"},
    {"runner", "ssh", "render", "store", "console", "runs"},
    set(),
    {"ops"},
    {"cli"},
)
MIDDLE = 2

# The only parts that touch these libraries.
KEEPERS = {
    "ansible": {"inventory"},
    "ansible_runner": {"runner"},
    "invoke": {"cli"},
    "jinja2": {"render"},
    "paramiko": {"ssh"},
    "rich": {"console"},
}

# Runs on the stack's own interpreter, in the framework's environment.
FRAMEWORKS = {"torch"}


def imports(path: Path) -> Iterator[str]:
    """Yield the full dotted names that a file imports, at whatever place."""
    package = path.relative_to(SOURCE).parent.parts if path.is_relative_to(SOURCE) else ()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join(filter(None, (*above, node.module)))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def files_of(package: str) -> list[Path]:
    return sorted((SOURCE / package).rglob("*.py"))


def part_of(path: Path) -> str:
    """Return the part of ironlease that a file belongs to: the first name below the package."""
    return path.relative_to(SOURCE / "ironlease").parts[0].removesuffix(".py")


def floor_of(part: str) -> int:
    return next((number for number, parts in enumerate(FLOORS) if part in parts), MIDDLE)


def shown(path: Path, name: str) -> str:
    return f"{path.relative_to(ROOT)} imports {name}"


def upward(path: Path) -> list[str]:
    own = floor_of(part_of(path))
    names = [name for name in imports(path) if name.startswith("ironlease.")]
    return [shown(path, name) for name in names if floor_of(name.split(".")[1]) > own]


def test_an_import_goes_down() -> None:
    assert [mistake for path in files_of("ironlease") for mistake in upward(path)] == []


@pytest.mark.parametrize("library", KEEPERS)
def test_a_library_has_one_keeper(library: str) -> None:
    users = {
        part_of(path) for path in files_of("ironlease") if library in {name.split(".")[0] for name in imports(path)}
    }

    assert users <= KEEPERS[library]


def test_the_host_side_knows_nothing_of_the_control_side() -> None:
    strange = [
        shown(path, name)
        for path in files_of("ironlease_node")
        for name in imports(path)
        if name.split(".")[0] not in {*sys.stdlib_module_names, "ironlease_node", *FRAMEWORKS}
    ]

    assert strange == []


def test_a_framework_is_only_imported_where_it_is_installed() -> None:
    users = {
        path.relative_to(SOURCE / "ironlease_node").parts[0]
        for path in files_of("ironlease_node")
        if FRAMEWORKS & {name.split(".")[0] for name in imports(path)}
    }

    assert users <= {"training"}


def test_the_tasks_import_only_the_command_line_and_operations() -> None:
    allowed = ("__future__.", "collections.", "typing.", "ironlease.cli.", "ironlease.ops")

    assert [name for name in imports(ROOT / "tasks.py") if not name.startswith(allowed)] == []


def test_an_upward_import_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    wrong = tmp_path / "ironlease" / "runner.py"
    wrong.parent.mkdir()
    wrong.write_text("def late():\n    from ironlease.ops import provision\n    from ironlease import files\n")

    assert upward(wrong) == ["ironlease/runner.py imports ironlease.ops.provision"]
