"""Which inventory a command means."""

from pathlib import Path

import pytest

from ironlease.errors import UsageError
from ironlease.ops import inventories
from ironlease.paths import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    add(made, "lab", "gpu_nodes: {hosts: {lab1: {}, lab2: {}}}")
    add(made, "example", "gpu_nodes: {hosts: {node1: {}}}")
    return made


def add(project: Project, name: str, text: str = "gpu_nodes: {hosts: {node1: {}}}") -> Path:
    folder = project.inventories / name
    folder.mkdir(parents=True)
    (folder / "hosts.yml").write_text(text)
    return folder


def choose(project: Project, given: str | None, *hosts: str, **variables: str) -> Path:
    return inventories.choose(project, given, list(hosts), variables)


def test_what_is_given_wins(project: Project, tmp_path: Path) -> None:
    own = add(project, "fleet")

    assert choose(project, "fleet", "lab1") == own
    assert choose(project, str(own), "lab1") == own
    with pytest.raises(UsageError, match="'flet'") as refused:
        choose(project, "flet")
    assert "did you mean fleet?" in refused.value.needed


def test_lab_hosts_mean_the_lab(project: Project) -> None:
    own = add(project, "fleet")

    assert choose(project, None, "lab1", "lab2", IRONLEASE_INVENTORY=str(own)).name == "lab"
    assert choose(project, None, "lab1", "node1").name == "fleet"


def test_the_variable_comes_before_the_only_one(project: Project) -> None:
    add(project, "fleet")
    other = add(project, "other")

    assert choose(project, None, "node1", IRONLEASE_INVENTORY="other") == other
    with pytest.raises(UsageError, match=r"\$IRONLEASE_INVENTORY names 'none'"):
        choose(project, None, "node1", IRONLEASE_INVENTORY="none")


def test_the_only_one_is_meant_and_of_several_none(project: Project) -> None:
    own = add(project, "fleet")
    assert choose(project, None, "node1") == own
    assert choose(project, None) == own

    add(project, "second")
    with pytest.raises(UsageError, match="2 inventories: fleet, second") as refused:
        choose(project, None, "node1")
    assert "--inventory fleet" in refused.value.next_step

    third = add(project, "third", "gpu_nodes: {hosts: {node3: {}}}")
    assert choose(project, None, "node3") == third
    with pytest.raises(UsageError, match="3 inventories"):
        choose(project, None)


def test_without_any_the_lab_is_meant_until_another_host_is_named(project: Project) -> None:
    assert choose(project, None).name == "lab"
    with pytest.raises(UsageError, match="lab9 is no lab host") as refused:
        choose(project, None, "lab9")
    assert "did you mean lab1 or lab2?" in refused.value.found
    assert refused.value.next_step == "invoke init"


def test_without_a_lab_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no inventory yet"):
        choose(Project(tmp_path), None)


def test_names_are_read_forgivingly(project: Project) -> None:
    folder = add(
        project,
        "fleet",
        "all: {hosts: {a: {key: !vault x}}, children: {gpu: {hosts: {'n[09:11]': , 'x[a:c]': {}}}, empty: }}",
    )
    (folder / "broken.yml").write_text("a: [")
    (folder / "notes.txt").write_text("b: {hosts: {never: {}}}")
    (folder / "binary.yaml").write_bytes(b"\xff\xfe\x00")

    assert inventories.host_names(folder) == ["a", "n09", "n10", "n11", "x[a:c]"]
    assert inventories.group_names(folder) == ["all", "empty", "gpu"]
    assert inventories.host_names(folder / "none") == []


def test_a_range_that_is_a_mistake_makes_no_millions(project: Project) -> None:
    folder = add(project, "fleet", "all: {hosts: {'n[0:999999999]': {}}}")

    assert len(inventories.host_names(folder)) < 5000
