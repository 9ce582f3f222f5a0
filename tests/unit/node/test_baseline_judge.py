from __future__ import annotations

import math

import pytest

from ironlease_node.baseline import judge

UID = 1000


@pytest.fixture
def train():
    return {
        "losses": [1.0, 0.9, 0.8, 0.7, 0.6, 0.3, 0.2, 0.15, 0.12, 0.1, 0.08],
        "continued": [0.08, 0.07, 0.06],
        "checksum_at_checkpoint": "aa",
        "ranks_agree": True,
        "bit_equal_expected": True,
        "world_size": 2,
        "uid": UID,
    }


@pytest.fixture
def resume():
    return {"continued": [0.08, 0.07, 0.06], "checksum_at_checkpoint": "aa", "ranks_agree": True, "uid": UID}


def failed(train, resume, uid=UID):
    checks = judge.judge(train, resume, uid)
    names = [check.name for check in checks if check.verdict != "pass"]
    verdict, reason = judge.verdict_of(checks)
    assert (verdict == "pass") == (not names) == (reason is None)
    return names


def test_a_good_training_passes_every_check(train, resume):
    assert failed(train, resume) == []


def test_the_limit_of_learning_on_both_sides(train, resume):
    train["losses"] = [1.0] * 5 + [0.5] * 5
    assert failed(train, resume) == []
    train["losses"] = [1.0] * 5 + [0.51] * 5
    assert failed(train, resume) == ["learns"]


def test_a_loss_that_rises_or_stays(train, resume):
    train["losses"] = [0.1] * 20
    assert failed(train, resume) == ["learns"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_no_number(train, resume, bad):
    train["losses"][7] = bad
    assert "finite" in failed(train, resume)


def test_two_losses_that_are_both_no_numbers_are_not_equal(train, resume):
    train["continued"] = resume["continued"] = [math.nan] * 3
    assert failed(train, resume) == ["finite", "continues"]


def test_on_a_cpu_the_last_bit_counts(train, resume):
    resume["continued"][2] = math.nextafter(0.06, 1.0)
    assert failed(train, resume) == ["continues"]


def test_the_tolerance_of_a_gpu_on_both_sides(train, resume):
    train["bit_equal_expected"] = False
    resume["continued"][2] = 0.06 * (1 + 0.9 * judge.GPU_RELATIVE_TOLERANCE)
    assert failed(train, resume) == []
    resume["continued"][2] = 0.06 * (1 + 1.1 * judge.GPU_RELATIVE_TOLERANCE)
    assert failed(train, resume) == ["continues"]


def test_fewer_steps_or_none_are_no_evidence(train, resume):
    resume["continued"] = [0.08, 0.07]
    assert failed(train, resume) == ["continues"]
    train["continued"] = resume["continued"] = []
    assert failed(train, resume) == ["continues"]


@pytest.mark.parametrize("phase", ["train", "resume"])
def test_ranks_that_disagree_in_either_phase(train, resume, phase):
    {"train": train, "resume": resume}[phase]["ranks_agree"] = False
    assert failed(train, resume) == ["ranks-agree"]


def test_parameters_that_changed_on_the_way(train, resume):
    resume["checksum_at_checkpoint"] = "ab"
    assert failed(train, resume) == ["checkpoint-whole"]


def test_root_or_another_user_proves_nothing(train, resume):
    assert failed(train, resume, uid=1001) == ["unprivileged"]
    train["uid"] = resume["uid"] = 0
    assert failed(train, resume, uid=0) == ["unprivileged"]


def test_reason_names_every_failed_check(train, resume):
    train["ranks_agree"] = False
    resume["checksum_at_checkpoint"] = "ab"

    verdict, reason = judge.verdict_of(judge.judge(train, resume, UID))

    assert verdict == "fail"
    assert "ranks-agree: " in reason
    assert "checkpoint-whole: " in reason
