"""Meeting a host for the first time: nobody is trusted silently, a password is used once, root's rights are found."""

import re
import subprocess

import pytest

pytestmark = pytest.mark.lab

PASSWORD = "correct horse battery"
WRONG = "SHA256:" + "A" * 43
NODE = {"ansible_host": "10.77.0.11"}

ACCOUNTS = f"""
echo 'root:{PASSWORD}' | chpasswd
echo 'PermitRootLogin yes' > /etc/ssh/sshd_config.d/seller.conf
for user in plain nopass askpass; do
    useradd --create-home --shell /bin/bash $user
    echo "$user:{PASSWORD}" | chpasswd
done
echo 'nopass ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/nopass
echo 'askpass ALL=(ALL) ALL' > /etc/sudoers.d/askpass
systemctl reload ssh
"""


@pytest.fixture(scope="module")
def seller(workshop):
    """A lab whose lab1 was handed over by a seller: a root password, users with and without sudo, no key of ours."""
    workshop.lab.reset(["lab1"], layer="provisioned")
    workshop.inside("lab1", ACCOUNTS)
    return workshop


@pytest.fixture
def stranger(seller, tmp_path):
    """A control side that has never met the host, which is called node1 here."""
    seller.inside("lab1", "rm -f /root/.ssh/authorized_keys /home/*/.ssh/authorized_keys")
    desk = seller.with_state_of_its_own(tmp_path)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    (tmp_path / "password").chmod(0o600)
    desk.fleet = desk.inventory(node1=NODE)
    return desk


def fingerprint(desk):
    return desk.inside("lab1", "ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]


def sshd(desk, setting):
    return re.search(rf"^{setting} (.+)$", desk.inside("lab1", "sshd -T"), re.MULTILINE)[1]


def enrol(desk, *flags, **environment):
    return desk.invoke("enrol", "--inventory", desk.fleet, "--host", "node1", *flags, **environment)


def enrol_with_password(desk):
    ended = enrol(desk, "--fingerprint", fingerprint(desk), "--password-file", str(desk.folder / "password"))
    assert ended.exit_code == 0, ended.stderr
    return ended


@pytest.mark.parametrize(
    "flags", [(), ("--yes",), ("--fingerprint", WRONG)], ids=["nobody to ask", "yes", "another fingerprint"]
)
def test_without_the_right_fingerprint_no_key_is_pinned(stranger, flags):
    ended = stranger.invoke("provision", "--inventory", stranger.fleet, "--host", "node1", *flags)

    (error,) = ended.json["errors"]
    assert (ended.exit_code, error["code"]) == (3, "host-key-refused")
    assert fingerprint(stranger) in error["found"]
    assert not (stranger.state / "known_hosts").exists()


def test_a_check_trusts_nobody_new(stranger):
    ended = stranger.invoke("provision", "--inventory", stranger.fleet, "--host", "node1", "--check")

    assert (ended.exit_code, ended.codes()) == (3, ["not-enrolled"])
    assert not (stranger.state / "known_hosts").exists()


def test_a_password_is_used_once_and_left_working(stranger):
    first = enrol_with_password(stranger)
    stranger.inside("lab1", "passwd --quiet --lock root")
    try:
        again = enrol(stranger)
        probed = stranger.invoke("probe", "--inventory", stranger.fleet, "--host", "node1")
    finally:
        stranger.inside("lab1", "passwd --quiet --unlock root")

    key_file = first.host("node1")["key_file"]
    assert key_file == str(stranger.state / "keys" / "fleet" / "id_ed25519")
    assert again.host("node1")["key_file"] == key_file
    assert (again.exit_code, probed.exit_code) == (0, 0)
    assert stranger.inside("lab1", "cat /root/.ssh/authorized_keys").count("ironlease") == 1
    assert sshd(stranger, "passwordauthentication") == "yes"


def test_a_wrong_password_is_said_and_the_right_one_goes_on(stranger):
    (stranger.folder / "wrong").write_text("another word\n")
    flags = ("--inventory", stranger.fleet, "--host", "node1", "--password-file")

    refused = stranger.invoke("provision", *flags, f"{stranger.folder}/wrong", "--fingerprint", fingerprint(stranger))
    check = stranger.invoke("provision", *flags, f"{stranger.folder}/password", "--check")
    accepted = stranger.invoke("enrol", *flags, f"{stranger.folder}/password")

    assert (refused.exit_code, refused.codes()) == (3, ["login-refused"])
    assert "the password" in refused.json["errors"][0]["found"]
    assert (check.exit_code, check.codes()) == (3, ["not-enrolled"])
    assert accepted.exit_code == 0


@pytest.mark.parametrize(("answer", "exit_code"), [("y", 0), ("n", 3), ("", 3)])
def test_on_a_terminal_a_person_decides_and_types_the_password(stranger, answer, exit_code):
    answers = {"Is this the fingerprint that the provider shows for it?": answer}
    if exit_code == 0:
        answers["Password of root on node1:"] = PASSWORD

    ended = stranger.on_a_terminal(
        "provision" if exit_code else "enrol", "--inventory", stranger.fleet, "--host", "node1", answers=answers
    )

    assert ended.exit_code == exit_code
    assert fingerprint(stranger) in ended.stderr
    assert PASSWORD not in ended.stderr
    assert (stranger.state / "known_hosts").exists() is (exit_code == 0)


def test_password_login_is_disabled_only_when_asked(stranger):
    enrol_with_password(stranger)
    try:
        ended = enrol(stranger, "--disable-password-login")

        assert ended.exit_code == 0, ended.stderr
        assert sshd(stranger, "passwordauthentication") == "no"
        assert enrol(stranger).exit_code == 0
        other = stranger.folder / "other"
        other.mkdir()
        elsewhere = stranger.with_state_of_its_own(other)
        elsewhere.fleet = elsewhere.inventory(node1=NODE)
        (other / "password").write_text(PASSWORD)
        by_password = enrol(
            elsewhere, "--fingerprint", fingerprint(stranger), "--password-file", str(other / "password")
        )
        assert (by_password.exit_code, by_password.codes()) == (3, ["login-refused"])
    finally:
        stranger.inside("lab1", "rm -f /etc/ssh/sshd_config.d/00-ironlease.conf && systemctl reload ssh")


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
def test_a_changed_host_key_stops_everything_until_a_person_has_looked(stranger, kind):
    enrol_with_password(stranger)
    before = fingerprint(stranger)
    stranger.inside(
        "lab1",
        "cp -a /etc/ssh /root/ssh.saved; rm /etc/ssh/ssh_host_*; "
        f"ssh-keygen -q -t {kind} -N '' -f /etc/ssh/ssh_host_{kind}_key; systemctl restart ssh",
    )
    try:
        shown = stranger.inside("lab1", f"ssh-keygen -l -f /etc/ssh/ssh_host_{kind}_key.pub").split()[1]
        flags = ("--inventory", stranger.fleet, "--host", "node1")
        stopped = stranger.invoke("provision", *flags)
        (error,) = stopped.json["errors"]
        remove = re.search(r"ssh-keygen -f (\S+) -R '(\S+)'", error["next"])
        subprocess.run(["ssh-keygen", "-f", remove[1], "-R", remove[2]], check=True, capture_output=True, timeout=30)
        trusted = stranger.invoke("enrol", *flags, "--fingerprint", shown)
    finally:
        stranger.inside("lab1", "rm -r /etc/ssh; mv /root/ssh.saved /etc/ssh; systemctl restart ssh")

    assert (stopped.exit_code, error["code"]) == (3, "host-key-changed")
    assert before in error["found"]
    assert shown in error["found"]
    assert trusted.exit_code == 0, trusted.stderr


class TestWithoutRootLogin:
    def as_user(self, desk, user):
        desk.fleet = desk.inventory(node1={**NODE, "ansible_user": user})

    def provision(self, desk, *flags):
        return desk.invoke("provision", "--inventory", desk.fleet, "--host", "node1", *flags)

    def enrolled(self, desk, user):
        self.as_user(desk, user)
        return self.provision(
            desk, "--fingerprint", fingerprint(desk), "--password-file", str(desk.folder / "password")
        )

    def test_a_user_without_sudo_is_refused(self, stranger):
        before = stranger.inside("lab1", "find /etc /opt /usr -newer /root/.ssh -type f | sort")

        ended = self.enrolled(stranger, "plain")

        (error,) = ended.json["errors"]
        assert (ended.exit_code, error["code"]) == (2, "no-sudo")
        assert "ansible_user: root" in error["next"]
        assert stranger.inside("lab1", "find /etc /opt /usr -newer /root/.ssh -type f | sort") == before

    def test_sudo_without_a_password_provisions_to_the_end(self, stranger):
        ended = self.enrolled(stranger, "nopass")
        again = self.provision(stranger)

        assert ended.exit_code == 0, ended.stderr
        assert ended.host("node1")["verdict"] == "pass"
        assert (again.exit_code, again.host("node1")["changed"]) == (0, 0)

    def test_sudo_with_a_password_provisions_to_the_end_with_it_and_says_so_without(self, stranger):
        ended = self.enrolled(stranger, "askpass")
        without = self.provision(stranger)
        (stranger.folder / "wrong").write_text("another word\n")
        wrong = self.provision(stranger, "--password-file", str(stranger.folder / "wrong"))
        again = self.provision(stranger, "--password-file", str(stranger.folder / "password"))
        asked = stranger.on_a_terminal(
            "provision",
            "--inventory",
            stranger.fleet,
            "--host",
            "node1",
            answers={"sudo password of askpass on node1:": PASSWORD},
        )

        assert ended.exit_code == 0, ended.stderr
        assert ended.host("node1")["verdict"] == "pass"
        assert (without.exit_code, without.codes()) == (2, ["sudo-password"])
        assert (wrong.exit_code, wrong.codes()) == (2, ["no-sudo"])
        assert (again.exit_code, again.host("node1")["changed"]) == (0, 0)
        assert asked.exit_code == 0, asked.stderr
        assert PASSWORD not in asked.stderr
