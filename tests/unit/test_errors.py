import pytest

from ironlease.errors import CombinedError, ExitCode, UnreachableError, UsageError, raise_all, worst


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], ExitCode.OK),
        ([ExitCode.OK, ExitCode.UNKNOWN], ExitCode.UNKNOWN),
        ([ExitCode.UNKNOWN, ExitCode.FAIL], ExitCode.FAIL),
        ([ExitCode.FAIL, ExitCode.UNFINISHED], ExitCode.UNFINISHED),
        ([ExitCode.UNFINISHED, ExitCode.UNREACHABLE], ExitCode.UNREACHABLE),
        ([ExitCode.UNREACHABLE, ExitCode.USAGE], ExitCode.USAGE),
        ([ExitCode.USAGE, ExitCode.CRASH], ExitCode.CRASH),
    ],
)
def test_the_first_in_the_documented_order_stands_for_all(codes, expected):
    assert worst(codes) is expected
    assert worst(codes[::-1]) is expected


def test_one_error_is_raised_as_itself():
    error = UsageError(found="a", needed="b", next_step="c")

    with pytest.raises(UsageError) as caught:
        raise_all([error])

    assert caught.value is error


def test_several_errors_are_raised_together_with_the_worst_code():
    errors = [
        UnreachableError(found="a", needed="b", next_step="c"),
        UsageError(found="d", needed="e", next_step="f"),
    ]

    with pytest.raises(CombinedError) as caught:
        raise_all(errors)

    assert caught.value.errors == errors
    assert caught.value.exit_code is ExitCode.USAGE


def test_no_error_raises_nothing():
    raise_all([])
