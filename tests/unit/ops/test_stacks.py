"""The list of stacks says what each is, and what of it was tested."""

from ironlease.console import Table
from ironlease.ops import stacks
from ironlease.ops.context import Context


def test_every_stack_file_is_listed_with_its_versions(context: Context) -> None:
    result = stacks.run(context)

    names = sorted(path.stem for path in context.project.stacks.glob("*.yml"))
    assert [entry["name"] for entry in result.data["stacks"]] == names
    table = result.lines[0]
    assert isinstance(table, Table)
    for row, entry in zip(table.rows, result.data["stacks"], strict=True):
        assert row[0] == entry["name"]
        assert f"torch {entry['versions']['torch']}" in row[2]
        for what in entry["not_tested"]:
            assert f"{entry['name']} not tested: {what}" in result.lines
