import pytest

from ironlease import redact
from ironlease.errors import UsageError
from ironlease.ops.passwords import Passwords
from ironlease.ssh import Target

TARGET = Target("node1", "203.0.113.11", user="ml")


class Person:
    """A console with somebody at it, who types a word at each question."""

    interactive = True

    def __init__(self, *words):
        self.words = list(words)
        self.questions = []

    def password(self, question):
        self.questions.append(question)
        return self.words.pop(0)


class Nobody:
    interactive = False


def test_the_last_newline_is_no_part_of_a_password_in_a_file(tmp_path):
    (tmp_path / "file").write_text(" tulip 42 \n")

    passwords = Passwords(Nobody(), str(tmp_path / "file"))

    assert passwords.given == passwords.for_sudo(TARGET) == passwords.for_login(TARGET) == " tulip 42 "
    assert "tulip" not in redact.scrub("with  tulip 42 ")


@pytest.mark.parametrize(
    ("content", "why"), [(None, "cannot be read"), ("", "no password"), ("a\nb\n", "several lines")]
)
def test_a_file_without_a_password_is_refused(tmp_path, content, why):
    if content is not None:
        (tmp_path / "file").write_text(content)

    with pytest.raises(UsageError, match=why) as caught:
        Passwords(Nobody(), str(tmp_path / "file"))

    assert caught.value.code == "password-file"


def test_each_login_is_asked_for_and_sudo_once():
    person = Person("one", "two", "three")
    passwords = Passwords(person, None)

    assert [passwords.for_login(TARGET), passwords.for_login(TARGET)] == ["one", "two"]
    assert [passwords.for_sudo(TARGET), passwords.for_sudo(TARGET)] == ["three", "three"]
    assert person.questions == [*["Password of ml on node1:"] * 2, "sudo password of ml on node1:"]


def test_nobody_is_asked_where_nobody_is():
    passwords = Passwords(Nobody(), None)

    assert not passwords.can_ask
    assert passwords.for_sudo(TARGET) is None
