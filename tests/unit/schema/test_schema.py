"""Every mistake in a user's file is named with its place and its cure."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Literal

import pytest
from pydantic import Field

from ironlease.errors import CombinedError, IronleaseError, UsageError
from ironlease.schema import AwareTime, Items, Model, Source, load_yaml, validate


class Wheel(Model):
    name: str
    count: int = 0


class Cart(Model):
    wheels: Items[Wheel] = ()
    by_name: dict[str, Wheel] = Field(default_factory=dict)
    ends_at: AwareTime | None = None
    kind: Literal["hand", "horse"] = "hand"


@pytest.fixture
def read(tmp_path):
    def read_text(text: str) -> Cart:
        path = tmp_path / "cart.yml"
        path.write_text(text, encoding="utf-8")
        return load_yaml(path, Cart)

    return read_text


@pytest.fixture
def in_shanghai(monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def mistakes(error: IronleaseError) -> list[IronleaseError]:
    return error.errors if isinstance(error, CombinedError) else [error]


@pytest.mark.parametrize(
    ("text", "line", "code", "words"),
    [
        pytest.param("\nwheles: []\n", 2, "unknown-key", ("wheles", "Did you mean wheels?"), id="unknown key"),
        pytest.param(
            "wheels:\n  - name: a\n    cuont: 1\n",
            3,
            "unknown-key",
            ("wheels[0].cuont", "Did you mean count?"),
            id="unknown key in a list",
        ),
        pytest.param(
            "by_name:\n  a: {nmae: x, name: y}\n",
            2,
            "unknown-key",
            ("by_name.a.nmae", "Did you mean name?"),
            id="unknown key in a mapping",
        ),
        pytest.param("wheels:\n  - count: 1\n", 2, "missing-key", ("wheels[0].name", "no default"), id="missing key"),
        pytest.param(
            "wheels:\n  - name: a\n    count: '1'\n", 3, "bad-value", ("'1'", "whole number"), id="text for a number"
        ),
        pytest.param(
            "wheels:\n  - name: a\n    count: true\n", 3, "bad-value", ("true", "whole number"), id="yes for one"
        ),
        pytest.param("wheels:\n  - name: 7\n", 2, "bad-value", ("is 7", "Text; quote it"), id="number for text"),
        pytest.param("kind: hosre\n", 1, "bad-value", ("'hosre'", "Did you mean horse?"), id="unknown choice"),
        pytest.param("wheels: 3\n", 1, "bad-value", ("is 3", "A list"), id="number for a list"),
        pytest.param("kind: hand\nkind: horse\n", 2, "yaml-broken", ("written twice", "Valid YAML"), id="key twice"),
        pytest.param("wheels: [\n", 2, "yaml-broken", ("not valid YAML", "Valid YAML"), id="broken YAML"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_its_cure(read, text, line, code, words):
    with pytest.raises(UsageError) as raised:
        read(text)

    error = raised.value
    assert error.code == code
    assert f"cart.yml:{line}: " in error.found
    assert words[0] in error.found
    assert words[1] in error.needed
    assert f"+{line} " in error.next_step
    assert error.exit_code == 2


def test_all_mistakes_are_told_at_once(read):
    with pytest.raises(CombinedError) as raised:
        read("wheels:\n  - {nmae: a}\nknid: x\n")

    codes = [error.code for error in raised.value.errors]
    assert sorted(codes) == ["missing-key", "unknown-key", "unknown-key"]


def test_a_missing_file_is_an_error_in_three_parts(tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file") as raised:
        load_yaml(tmp_path / "none.yml", Cart)

    assert "ls -l" in raised.value.next_step


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        pytest.param("2026-12-31T18:00:00", "2026-12-31T18:00:00+08:00", id="unquoted"),
        pytest.param('"2026-12-31T18:00:00"', "2026-12-31T18:00:00+08:00", id="quoted"),
        pytest.param('"2026-12-31 18:00"', "2026-12-31T18:00:00+08:00", id="with a blank"),
        pytest.param('"2026/12/31 18:00"', "2026-12-31T18:00:00+08:00", id="slashes"),
        pytest.param('"31.12.2026 18:00"', "2026-12-31T18:00:00+08:00", id="day first"),
        pytest.param("2026-12-31", "2026-12-31T23:59:00+08:00", id="a day, which means its end"),
        pytest.param('"2026-12-31"', "2026-12-31T23:59:00+08:00", id="a quoted day"),
    ],
)
def test_a_naive_time_is_shown_corrected(read, in_shanghai, written, shown):
    with pytest.raises(UsageError) as raised:
        read(f"ends_at: {written}\n")

    assert "names no offset" in raised.value.found
    assert f'Write ends_at: "{shown}"' in raised.value.next_step


@pytest.mark.parametrize("written", ["tomorrow", '"2026-13-01T00:00:00+08:00"', "12", "true"])
def test_no_time_at_all_is_answered_with_an_example(read, in_shanghai, written):
    with pytest.raises(UsageError) as raised:
        read(f"ends_at: {written}\n")

    assert "+08:00" in raised.value.next_step


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param('"2026-12-31T18:00:00+08:00"', datetime(2026, 12, 31, 10, tzinfo=UTC), id="offset"),
        pytest.param("2026-12-31T18:00:00Z", datetime(2026, 12, 31, 18, tzinfo=UTC), id="unquoted UTC"),
        pytest.param('"2026-12-31 18:00+01:00"', datetime(2026, 12, 31, 17, tzinfo=UTC), id="blank and no seconds"),
    ],
)
def test_a_time_with_an_offset_is_taken(read, written, expected):
    cart = read(f"ends_at: {written}\n")

    assert cart.ends_at == expected
    assert cart.ends_at.utcoffset() is not None


def test_entries_that_are_wrong_do_not_also_count_as_missing():
    with pytest.raises(UsageError) as raised:
        validate({"wheels": [{"name": 1}]}, Cart, Source("cart"))

    assert len(mistakes(raised.value)) == 1


def test_a_long_value_is_cut(read):
    with pytest.raises(UsageError) as raised:
        read(f"wheels:\n  - name: a\n    count: {'x' * 500}\n")

    assert len(raised.value.found) < 300
