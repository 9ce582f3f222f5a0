from __future__ import annotations

import io
import json

import pytest

from ironlease_node import __main__ as agent


@pytest.fixture
def call(monkeypatch, capsys):
    def run(*words, stdin=""):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        status = agent.main(list(words))
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


@pytest.mark.parametrize("words", [(), ("dance",), ("probe", "again")])
def test_unknown_command_is_refused_in_json(call, words):
    status, out, err = call(*words)

    answer = json.loads(out)
    assert status == 2
    assert answer["schema"] == "ironlease.refusal/1"
    assert answer["code"] == "bad-command"
    assert "probe" in answer["needed"]
    assert err == ""


@pytest.mark.parametrize("stdin", ["", "hunter2-password\n", "[1]", '"text"', "{"])
def test_bad_input_is_refused_and_never_quoted(call, stdin):
    status, out, err = call("manifest", stdin=stdin)

    assert status == 2
    assert json.loads(out)["code"] == "bad-input"
    assert "hunter2" not in out + err


def test_refusal_has_its_three_parts_and_the_whole_text(call):
    _, out, _ = call("snapshot", stdin="{}")

    answer = json.loads(out)
    assert "`directory`" in answer["found"]
    assert answer["error"] == f"{answer['found']} Needed: {answer['needed']} Next: {answer['next']}"


def test_crash_is_told_on_stderr_and_by_the_exit_status(call, monkeypatch):
    monkeypatch.setattr("ironlease_node.manifest.answer", lambda request: 1 / 0)

    status, out, err = call("manifest", stdin='{"environment": null}')

    assert status == 70
    assert out == ""
    assert "ZeroDivisionError" in err


def test_answer_is_one_line_of_json(call):
    status, out, _ = call("manifest", stdin='{"environment": null}')

    assert status == 0
    assert out.count("\n") == 1
    assert json.loads(out)["schema"] == "ironlease.manifest/1"
