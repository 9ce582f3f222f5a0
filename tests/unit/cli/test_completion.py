"""What the shell offers at each place of a command line."""

from pathlib import Path

import pytest

from ironlease.cli import completion
from ironlease.cli.program import Program
from ironlease.errors import UsageError
from ironlease.paths import Project


@pytest.fixture
def offered(program: Program, project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("IRONLEASE_RUNS_DIR", raising=False)
    monkeypatch.chdir(project.root)
    for name, text in {
        "lab": "gpu_nodes: {hosts: {lab1: {}, lab2: {}}}",
        "fleet": "gpu_nodes: {hosts: {'node[08:10]': {}}, children: {big: {hosts: {large1: {key: !vault secret}}}}}",
        "example": "gpu_nodes: {hosts: {never: {}}}",
        "broken": "gpu_nodes: {hosts: [",
    }.items():
        (project.inventories / name).mkdir(parents=True)
        (project.inventories / name / "hosts.yml").write_text(text)
    for run in ("20260101T000000Z-provision", "20260102T000000Z-plan"):
        (project.runs / run).mkdir(parents=True)
    (project.root / "folder").mkdir()
    (project.root / "file.txt").touch()

    def ask(*words: str) -> list[str]:
        return completion.candidates(list(words), program.initial_context, program._contexts(), project)

    return ask


def test_tasks_come_first(offered) -> None:
    assert offered("") == ["crash", "echo", "lab.ssh", "partly", "refuse", "stop", "unsure"]
    assert offered("lab.") == ["lab.ssh"]
    assert offered() == offered("")


def test_after_a_task_come_its_flags_and_the_common_ones(offered) -> None:
    own = {"--host", "--number", "--only", "--file", "--run", "--yes"}
    common = {"--json", "--no-color", "--inventory", "--debug", "--help"}

    assert own | common <= set(offered("echo", "--"))
    assert offered("echo", "--j") == ["--json"]
    assert offered("echo", "--yes", "--ye") == []
    assert offered("echo", "") == []


def test_hosts_come_from_every_inventory_that_can_be_read(offered) -> None:
    assert offered("echo", "--host", "") == ["lab1", "lab2", "large1", "node08", "node09", "node10"]
    assert offered("lab.ssh", "--host", "lab") == ["lab1", "lab2"]


def test_a_list_goes_on_after_its_comma_without_what_it_has(offered) -> None:
    assert offered("echo", "--host", "lab1,l") == ["lab1,lab2", "lab1,large1"]


def test_a_value_after_an_equals_sign(offered) -> None:
    # zsh and fish hand over one word, bash three.
    assert offered("echo", "--host=lab") == ["--host=lab1", "--host=lab2"]
    assert offered("echo", "--host", "=", "lab") == ["lab1", "lab2"]
    assert offered("echo", "--host", "=") == offered("echo", "--host", "")


def test_runs_choices_inventories_and_files(offered) -> None:
    assert offered("echo", "--run", "20260102") == ["20260102T000000Z-plan"]
    assert offered("echo", "--only", "c") == ["contract"]
    assert "fleet" in offered("echo", "--inventory", "f")
    assert offered("echo", "--file", "f") == ["file.txt", "folder/"]


def test_a_flag_that_takes_no_value_is_followed_by_nothing_of_its_own(offered) -> None:
    assert offered("echo", "--yes", "l") == []


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_each_shell_has_a_script(shell: str) -> None:
    assert "--complete" in completion.script(shell)


def test_another_shell_is_refused() -> None:
    with pytest.raises(UsageError, match="tcsh") as refused:
        completion.script("tcsh")

    assert "bash" in refused.value.needed


def test_a_missing_folder_offers_nothing(offered, project: Project) -> None:
    assert offered("echo", "--file", str(Path("none") / "x")) == []
