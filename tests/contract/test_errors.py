"""Every error code in the source stands in docs/reference/errors.md, with its exit code, and no other does."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "errors.md"
FOLDERS = ("src/ironlease", "src/ironlease_node", "plugins")
EXIT_CODES = {"OK": 0, "FAIL": 1, "USAGE": 2, "UNREACHABLE": 3, "UNFINISHED": 4, "UNKNOWN": 5, "CRASH": 70}

# Never shown: the base class that everybody derives from, and the one that is shown as its parts.
NEVER_SHOWN = {"error", "several"}
# What an f-string may become.
EXPANSIONS = {
    "baseline-{}": {"baseline-fail", "baseline-unknown"},
    "unknown-{}": {"unknown-host", "unknown-group"},
}
# A refusal of the agent's that only a mistake of ours can bring about ends as a crash.
SHOWN_AS_CRASH = {"bad-input", "bad-command"}
# Which positional argument is the code.
POSITIONAL = {("diagnose.py", "_known"): 0, ("rules.py", "_finding"): 0}
# Helpers that take a code as an argument: their own callers have the value.
PASSES_ON = {"code", "self.code", "error.code", "finding.code", "known.code", "entry['code']", "refusal['code']"}


class Use(NamedTuple):
    """One place where a code stands; the exit code is None where the source alone does not tell."""

    code: str
    exit_code: int | None
    place: str


def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for _, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, ast.parse(path.read_text(encoding="utf-8"))


def class_value(name: str, attribute: str, known: dict[str, ast.ClassDef]) -> ast.expr | None:
    """Return what a class, or the nearest of its bases, sets an attribute to."""
    while (node := known.get(name)) is not None:
        for statement in node.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == attribute:
                return statement.value
        name = ast.unparse(node.bases[0]) if node.bases else ""
    return None


def exit_code_of(node: ast.expr | None) -> int | None:
    name = re.fullmatch(r"(?:int\()?ExitCode\.([A-Z]+)\)?", ast.unparse(node)) if node is not None else None
    return EXIT_CODES[name[1]] if name else None


def constants(node: ast.expr) -> set[str]:
    """Return the codes that an expression may be."""
    if isinstance(node, ast.Constant):
        return {node.value}
    if isinstance(node, ast.JoinedStr):
        pattern = "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        return EXPANSIONS[pattern]
    if isinstance(node, ast.IfExp):
        return constants(node.body) | constants(node.orelse)
    assert ast.unparse(node) in PASSES_ON, f"a code that this test does not understand: {ast.unparse(node)}"
    return set()


def uses() -> Iterator[Use]:
    known = classes()
    for path, tree in trees():
        for node in ast.walk(tree):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call):
                yield from (Use(code, exit_code, place) for code, exit_code in of_call(path, node, known))
            elif isinstance(node, ast.ClassDef) and (value := class_value(node.name, "code", {node.name: node})):
                yield Use(constants(value).pop(), exit_code_of(class_value(node.name, "exit_code", known)), place)
            elif isinstance(node, ast.Assign):
                yield from (Use(code, None, place) for code in of_assignment(node))


def of_call(path: Path, node: ast.Call, known: dict[str, ast.ClassDef]) -> Iterator[tuple[str, int | None]]:
    name = ast.unparse(node.func).rpartition(".")[2]
    position = POSITIONAL.get((path.name, name))
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    value = keywords.get("code") if position is None else node.args[position]
    if value is None or (position is None and name not in {*known, "Finding", "Refusal"}):
        return
    if name == "_known":
        exit_code = exit_code_of(node.args[4]) if len(node.args) > 4 else EXIT_CODES["UNFINISHED"]
    elif "exit_code" in keywords:
        exit_code = exit_code_of(keywords["exit_code"])
    elif name in {"Finding", "Refusal", "_finding"}:
        exit_code = EXIT_CODES["USAGE"]
    else:
        exit_code = exit_code_of(class_value(name, "exit_code", known))
    for code in constants(value):
        yield code, exit_code


def of_assignment(node: ast.Assign) -> set[str]:
    """Return the codes in `code, what = "some-code", ...`."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and ast.unparse(target.elts[0]) == "code" and isinstance(value, ast.Tuple):
        return constants(value.elts[0])
    return set()


def rows() -> dict[str, str]:
    """Return each documented code with its second column: exit codes, or a severity."""
    found: dict[str, str] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `([a-z0-9.-]+)` \| ([^|]+) \|", line)
        if row:
            assert row[1] not in found, f"{row[1]} stands there twice"
            found[row[1]] = row[2]
    return found


def test_every_code_is_documented_and_nothing_else() -> None:
    used = {use.code for use in uses()} - NEVER_SHOWN

    assert used - set(rows()) == set()
    assert set(rows()) - used == set()


def test_the_documented_exit_codes_are_the_real_ones() -> None:
    documented = {code: {int(word) for word in re.findall(r"\d+", column)} for code, column in rows().items()}
    wrong = [
        f"{use.place}: {use.code} ends with {use.exit_code}"
        for use in uses()
        if use.exit_code is not None
        and use.code not in NEVER_SHOWN | SHOWN_AS_CRASH
        and documented.get(use.code)
        and use.exit_code not in documented[use.code]
    ]

    assert wrong == []


def test_each_row_says_what_to_do() -> None:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]

    assert [line for line in lines if any(not cell.strip() for cell in line.strip("|").split("|"))] == []
