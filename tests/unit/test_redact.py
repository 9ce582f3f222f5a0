import json

import pytest

from ironlease import redact


@pytest.fixture(autouse=True)
def _forget_secrets(monkeypatch):
    monkeypatch.setattr(redact, "_secrets", set())


def test_a_registered_secret_is_masked_everywhere():
    redact.register("correct horse")

    assert redact.scrub("password=correct horse!") == "password=********!"


def test_the_form_that_json_gives_a_secret_is_masked_too():
    redact.register('qu"ote\\slash')

    assert "slash" not in redact.scrub(json.dumps({"password": 'qu"ote\\slash'}))


def test_values_are_scrubbed_in_keys_lists_and_nested_objects():
    redact.register("hunter22")

    assert redact.scrub_value({"hunter22": ["a hunter22", {"b": ("hunter22", 3, None)}]}) == {
        "********": ["a ********", {"b": ["********", 3, None]}]
    }


def test_a_secret_inside_another_is_masked_whole():
    redact.register("secret")
    redact.register("secret-and-more")

    assert redact.scrub("x secret-and-more y") == "x ******** y"


@pytest.mark.parametrize("short", [None, "", "abc"])
def test_too_short_a_secret_would_blank_ordinary_words(short):
    redact.register(short)

    assert redact.scrub("abc abacus") == "abc abacus"
