"""Names and places of a lab."""

from pathlib import Path

import pytest

from ironlease.errors import UsageError
from ironlease.lab.instance import Instance, default_name


def test_two_checkouts_have_two_labs(tmp_path, monkeypatch):
    monkeypatch.delenv("IRONLEASE_LAB", raising=False)

    first = Instance.of_checkout(tmp_path / "one")
    second = Instance.of_checkout(tmp_path / "two")

    assert first.name != second.name
    assert first == Instance.of_checkout(tmp_path / "one")


def test_a_checkout_reached_by_a_link_has_the_same_lab(tmp_path):
    (tmp_path / "checkout").mkdir()
    (tmp_path / "link").symlink_to("checkout")

    assert default_name(tmp_path / "checkout") == default_name(tmp_path / "link")


def test_the_environment_names_the_lab(monkeypatch):
    monkeypatch.setenv("IRONLEASE_LAB", "night-shift")

    assert Instance.of_checkout(Path("/anywhere")).name == "night-shift"


@pytest.mark.parametrize("name", ["../other", "a/b", "UPPER", "", ".cache", "-x", "x-", "a" * 21])
def test_a_name_that_would_lead_elsewhere_is_refused(name):
    with pytest.raises(UsageError) as refused:
        Instance(name)

    assert refused.value.code == "lab-instance-name"


def test_the_longest_path_of_a_control_socket_fits_a_unix_socket():
    # OpenSSH: 40 characters of %C, a dot and 16 random ones while it makes the socket; the limit is 108 with the 0.
    longest = Instance("a" * 20).ssh_sockets / ("c" * 40 + "." + "r" * 16)

    assert len(str(longest)) < 108


def test_the_longest_machine_name_is_one():
    assert len(Instance("a" * 20).machine_name("lab1")) <= 64
