import json
import stat

from ironlease import redact, runs
from ironlease.paths import Project


def test_a_run_folder_is_private_and_named_for_its_command(tmp_path):
    folder = runs.RunFolder.create(Project(tmp_path), "provision")

    assert folder.path.name.endswith("-provision")
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.path.parent.stat().st_mode) == 0o700


def test_two_runs_in_one_second_get_two_folders(tmp_path):
    made = [runs.RunFolder.create(Project(tmp_path), "probe") for _ in range(3)]

    assert len({folder.path for folder in made}) == 3
    assert runs.names(Project(tmp_path)) == sorted(folder.path.name for folder in made)


def test_nothing_that_is_written_holds_a_secret(tmp_path, monkeypatch):
    monkeypatch.setattr(redact, "_secrets", set())
    redact.register("tulip-42")
    folder = runs.RunFolder.create(Project(tmp_path), "probe")

    folder.write_json("a/b.json", {"key": "tulip-42"})
    folder.write_text("log", "login with tulip-42")
    folder.append_line("events.jsonl", {"message": "tulip-42"})

    written = [path for path in folder.path.rglob("*") if path.is_file()]
    assert len(written) == 3
    for path in written:
        assert "tulip-42" not in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lines_are_appended(tmp_path):
    folder = runs.RunFolder.create(Project(tmp_path), "probe")

    folder.append_line("events.jsonl", {"n": 1})
    folder.append_line("events.jsonl", {"n": 2})

    assert [json.loads(line)["n"] for line in (folder.path / "events.jsonl").read_text().splitlines()] == [1, 2]


def test_no_runs_yet(tmp_path):
    assert runs.names(Project(tmp_path)) == []
