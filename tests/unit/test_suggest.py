from __future__ import annotations

import pytest

from ironlease.suggest import did_you_mean, nearest

STACKS = ["torch-cpu", "torch-cu128", "mindspore-910b"]
KEYS = ["ironlease_stack", "ironlease_lease", "ironlease_expect"]


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        pytest.param("torch-cp", STACKS, ["torch-cpu"], id="a letter short"),
        pytest.param("torch_cu128", STACKS, ["torch-cu128"], id="underscore for dash"),
        pytest.param("TORCH-CPU", STACKS, ["torch-cpu"], id="capitals"),
        pytest.param("mind", STACKS, ["mindspore-910b"], id="a beginning"),
        pytest.param("ironlease_stak", KEYS, ["ironlease_stack"], id="a common prefix does not make all alike"),
        pytest.param("lab9", ["lab1", "lab2"], ["lab1", "lab2"], id="equally near"),
        pytest.param("zebra", STACKS, [], id="nothing near"),
        pytest.param("", STACKS, [], id="empty"),
    ],
)
def test_nearest(name, known, expected):
    assert nearest(name, known) == expected


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        pytest.param("torch-cp", STACKS, "did you mean torch-cpu?", id="near"),
        pytest.param("zebra", ["b", "a"], "one of a, b.", id="far"),
        pytest.param("zebra", [], "there is none yet.", id="none"),
    ],
)
def test_did_you_mean(name, known, expected):
    assert did_you_mean(name, known) == expected
