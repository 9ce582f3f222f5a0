"""The inventory that `invoke init` writes."""

from pathlib import Path
from typing import Any

import pytest

from ironlease import inventory
from ironlease.console import Console
from ironlease.errors import CombinedError, IronleaseError, UsageError
from ironlease.ops import init
from ironlease.ops.context import Context
from ironlease.ops.result import Result

FLAGS: dict[str, Any] = {
    "name": None, "host": [], "user": None, "port": None, "stack": None, "lease_ends": None
}  # fmt: skip


def run(context: Context, **flags: Any) -> Result:
    return init.run(context, **{**FLAGS, **flags})


def written(context: Context, name: str = "fleet") -> Path:
    return context.project.inventories / name / "hosts.yml"


def test_flags_alone_are_enough(context: Context) -> None:
    result = run(
        context,
        host=["node1=203.0.113.11", "n-2=host.example.org", "n3=fd00::1"],
        user="ubuntu",
        port=2222,
        stack="torch-cpu",
        lease_ends="2026-12-31T18:00:00+08:00",
    )

    loaded = inventory.load(written(context))
    assert {host.name: host.address for host in loaded.hosts} == result.data["hosts"]
    (first, *_) = loaded.hosts
    assert (first.user, first.port, first.stack) == ("ubuntu", 2222, "torch-cpu")
    assert first.lease is not None
    assert first.lease.ends_at.isoformat() == "2026-12-31T18:00:00+08:00"
    assert result.summary == "Next: invoke provision --host node1"


def test_everything_that_is_commented_out_is_right_as_well(context: Context) -> None:
    run(context, host=["node1=203.0.113.11"])
    path = written(context)
    lines = path.read_text().splitlines()
    start = lines.index("gpu_nodes:")
    # A comment of the form `# key: value` or `# - item` is an example; others are sentences.
    examples = [
        line.replace("# ", "", 1) if line.lstrip().startswith(("# ironlease_", "#   ")) else line
        for line in lines[start:]
    ]
    path.write_text("\n".join(examples))

    (host,) = inventory.load(path).hosts
    assert host.lease is not None
    assert host.expect is not None
    assert host.checkpoints is not None
    assert host.index_url == "https://mirror.example/simple"


def test_a_second_inventory_is_named_in_what_comes_next(context: Context) -> None:
    run(context, host=["node1=203.0.113.11"])
    second = run(context, name="second", host=["node1=203.0.113.11"])

    assert "--inventory second" in written(context, "second").read_text()
    assert second.summary == "Next: invoke provision --host node1 --inventory second"
    assert "--inventory" not in written(context).read_text()


def test_nothing_is_overwritten(context: Context) -> None:
    run(context, host=["node1=203.0.113.11"])
    before = written(context).read_bytes()
    with pytest.raises(UsageError, match="inventories/fleet is there already"):
        run(context, host=["other=203.0.113.12"])

    assert written(context).read_bytes() == before


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ({"host": []}, "--host was not given|No host was named"),
        ({"host": ["node1"]}, "--host was given 'node1'"),
        ({"host": ["node1=203.0.113"]}, "--host was given"),
        ({"host": ["node1=300.0.113.1"]}, "--host was given"),
        ({"host": ["-x=203.0.113.1"]}, "--host was given"),
        ({"host": ["a=203.0.113.1", "a=203.0.113.2"]}, "--host was given"),
        ({"name": "My Fleet"}, "--name was given 'My Fleet'"),
        ({"name": "../x"}, "--name was given"),
        ({"user": "a b"}, "--user was given 'a b'"),
        ({"port": 70000}, "--port was given '70000'"),
        ({"stack": "torch-cpuu"}, "--stack was given 'torch-cpuu'"),
        ({"lease_ends": "2026-12-31 18:00"}, "names no offset"),
        ({"lease_ends": "soon"}, "--lease-ends"),
    ],
)
def test_a_wrong_answer_leaves_nothing_behind(context: Context, flags: dict[str, Any], found: str) -> None:
    with pytest.raises(IronleaseError, match=found):
        run(context, **{"host": ["node1=203.0.113.11"], **flags})

    inventories = context.project.inventories
    assert not inventories.exists() or list(inventories.iterdir()) == []


def test_a_person_is_asked_for_what_no_flag_says_until_it_is_right(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = ["", "node1", "node1=203.0.113.11", "", "torch-cpu", "2026-12-31T18:00:00+08:00"]
    questions: list[str] = []

    def ask(self: Console, question: str, default: str = "") -> str:
        questions.append(question)
        return answers.pop(0) or default

    monkeypatch.setattr(Console, "interactive", property(lambda self: True))
    monkeypatch.setattr(Console, "ask", ask)
    run(context)

    (host,) = inventory.load(written(context)).hosts
    assert (host.name, host.user, host.stack) == ("node1", "root", "torch-cpu")
    assert [question.split()[0] for question in questions] == [
        "Name",
        "Hosts,",
        "Hosts,",
        "Login",
        "Stack",
        "End",
    ]


def test_an_inventory_that_does_not_validate_is_never_put_in_place(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise CombinedError([UsageError(found="no", needed="b", next_step="c")])

    monkeypatch.setattr(inventory, "load", refuse)
    with pytest.raises(CombinedError):
        run(context, host=["node1=203.0.113.11"])

    assert list(context.project.inventories.iterdir()) == []
