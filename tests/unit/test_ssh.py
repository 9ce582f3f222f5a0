import hashlib
import importlib.util
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from ironlease import enrol, ssh
from ironlease.errors import UnreachableError, UsageError
from ironlease.paths import Project
from ironlease.ssh import HostKey, Target

_spec = importlib.util.spec_from_file_location("ssh_server", Path(__file__).with_name("ssh_server.py"))
ssh_server = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ssh_server)


@pytest.fixture(autouse=True)
def _no_keys_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)


@pytest.fixture
def server(tmp_path):
    server = ssh_server.SshServer(ssh_server.new_key(tmp_path, "host_key"), password="s3cret-words")
    server.authorized_keys.add(ssh_server.new_key(tmp_path, "login_key").get_base64())
    yield server
    server.close()


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


@pytest.fixture
def target(server, tmp_path):
    return Target("node1", "127.0.0.1", server.port, "root", (tmp_path / "login_key",))


@pytest.fixture
def pinned(project, target, server):
    enrol.pin_host_key(project, target, vouched=_public(server.host_key), fingerprint=None, confirm=None)


def _public(key):
    return HostKey(key.get_name(), key.get_base64())


def test_the_fingerprint_is_the_one_that_ssh_keygen_prints(tmp_path):
    key = ssh_server.new_key(tmp_path, "some_key")

    printed = subprocess.run(
        ["ssh-keygen", "-l", "-f", str(tmp_path / "some_key.pub")],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )

    assert printed.stdout.split()[1] == _public(key).fingerprint


@pytest.mark.usefixtures("pinned")
def test_a_command_gets_its_input_and_gives_its_outputs_and_exit_status(project, target):
    with ssh.connect(target, project.known_hosts) as connection:
        completed = connection.run(["sh", "-c", "cat; echo $0 >&2; exit 3", "two words"], stdin=b"in\xff")

    assert (completed.exit_status, completed.output, completed.stderr) == (3, b"in\xff", "two words\n")


@pytest.mark.usefixtures("pinned")
def test_large_outputs_on_both_streams_do_not_block_each_other(project, target):
    script = "head -c 6000000 /dev/zero >&2; head -c 6000000 /dev/zero; wc -c"
    with ssh.connect(target, project.known_hosts) as connection:
        completed = connection.run(script, stdin=b"x" * 3_000_000, timeout_seconds=60)

    assert len(completed.errors) == 6_000_000
    assert completed.output[6_000_000:] == b"3000000\n"


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_command_that_prints_without_end_does_not_fill_our_memory(project, target, monkeypatch, stream):
    monkeypatch.setattr("ironlease.ssh.connection.LIMIT_BYTES", 1_000_000)
    with ssh.connect(target, project.known_hosts) as connection, pytest.raises(ssh.AnswerTooLongError, match="node1"):
        connection.run(f"head -c 20000000 /dev/zero >&{stream}; sleep 20", stdin=b"x" * 3_000_000, timeout_seconds=10)


@pytest.mark.usefixtures("pinned")
def test_a_first_line_without_end_is_not_waited_for(project, target):
    with ssh.connect(target, project.known_hosts) as connection, pytest.raises(ssh.AnswerTooLongError, match="node1"):
        connection.start(["head", "-c", "20000000", "/dev/zero"], b"", timeout_seconds=10)


@pytest.mark.usefixtures("pinned")
def test_a_command_that_hangs_is_given_up_in_time(project, target):
    with ssh.connect(target, project.known_hosts) as connection:
        started = time.monotonic()
        with pytest.raises(ssh.ConnectionLostError, match="did not end within 1 s"):
            connection.run(["sleep", "20"], timeout_seconds=1)

    assert time.monotonic() - started < 5


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize("line", [b"node9 ssh-ed25519 AAAA-no-base64\n", b"\xff\xfe\n"])
def test_a_broken_line_among_the_pinned_keys_is_named(project, target, line):
    with project.known_hosts.open("ab") as file:
        file.write(line)

    with pytest.raises(UsageError, match=str(project.known_hosts)):
        ssh.connect(target, project.known_hosts)


@pytest.mark.usefixtures("pinned")
def test_a_connection_that_breaks_in_the_middle_is_said_so(project, target, server):
    with ssh.connect(target, project.known_hosts) as connection:
        threading.Timer(0.5, server.cut).start()
        with pytest.raises(ssh.ConnectionLostError, match="node1"):
            connection.run(["sleep", "20"], timeout_seconds=15)


def test_an_enrolment_is_that_of_the_pinned_key_and_the_login(tmp_path):
    key, other = (_public(ssh_server.new_key(tmp_path, name)) for name in ("one", "other"))
    target = Target("node1", "203.0.113.11")
    record = enrol.Enrolment("node1", key.fingerprint, "root", "root", None)

    assert record.is_of(target, [other, key])
    assert not record.is_of(target, [other])
    assert not record.is_of(replace(target, user="admin"), [key])


def test_a_host_that_was_never_pinned_is_not_trusted(project, target):
    with pytest.raises(ssh.HostKeyUnknownError) as caught:
        ssh.connect(target, project.known_hosts)

    assert caught.value.next_step == "invoke enrol --host node1"


@pytest.mark.usefixtures("pinned")
def test_a_changed_host_key_stops_everything_before_a_login(project, target, server, tmp_path):
    server.host_key = ssh_server.new_key(tmp_path, "another_host_key")

    with pytest.raises(ssh.HostKeyChangedError) as caught:
        ssh.connect(target, project.known_hosts, password="s3cret-words")

    assert _public(server.host_key).fingerprint in caught.value.found
    assert "-R '[127.0.0.1]:" in caught.value.next_step


@pytest.mark.usefixtures("pinned")
def test_the_password_is_used_when_no_key_is_accepted(project, target, server):
    server.authorized_keys.clear()

    with ssh.connect(target, project.known_hosts, password="s3cret-words") as connection:
        assert connection.run(["true"]).exit_status == 0


@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize(("password", "tried"), [(None, "login_key"), ("wrong-words", "the password")])
def test_a_refused_login_says_what_was_tried(project, target, server, password, tried):
    server.authorized_keys.clear()

    with pytest.raises(ssh.LoginRefusedError) as caught:
        ssh.connect(target, project.known_hosts, password=password)

    assert tried in caught.value.found
    assert "wrong-words" not in caught.value.found


@pytest.mark.usefixtures("pinned")
def test_a_key_that_cannot_be_read_is_named_and_passed_over(project, target, tmp_path):
    (tmp_path / "login_key").write_text("not a key")

    with pytest.raises(ssh.LoginRefusedError, match="cannot be read"):
        ssh.connect(target, project.known_hosts)


def test_a_closed_port(project, target, server):
    server.close()

    with pytest.raises(UnreachableError) as caught:
        ssh.fetch_host_key(target)

    assert caught.value.code == "port-closed"


def test_a_server_that_accepts_and_says_nothing_is_given_up_in_time(target):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(UnreachableError) as caught:
            ssh.fetch_host_key(replace(target, port=silent.getsockname()[1]), timeout_seconds=1)

    assert caught.value.code == "timeout"
    assert time.monotonic() - started < 5


def test_a_name_that_does_not_exist(target):
    with pytest.raises(UnreachableError) as caught:
        ssh.fetch_host_key(replace(target, address="no-such-host.invalid"), timeout_seconds=10)

    assert caught.value.code == "name-unknown"


PROXY = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
socket.send_fds(socket.socket(fileno=1), [b"\\0"], [connection.fileno()])
"""


@pytest.mark.usefixtures("pinned")
def test_a_proxy_command_may_pass_the_connected_socket(project, target, tmp_path):
    (tmp_path / "proxy.py").write_text(PROXY)
    options = {"proxycommand": f"{sys.executable} {tmp_path}/proxy.py %h %p", "proxyusefdpass": "yes"}

    with ssh.connect(replace(target, options=options), project.known_hosts) as connection:
        assert connection.run(["echo", "through"]).stdout == "through\n"


@pytest.mark.parametrize("passes_the_socket", ["yes", "no"])
def test_a_proxy_command_that_fails_says_why(target, passes_the_socket):
    options = {"proxycommand": "sh -c 'echo no route here >&2; exit 1'", "proxyusefdpass": passes_the_socket}

    with pytest.raises(UnreachableError, match="no route here"):
        ssh.fetch_host_key(replace(target, options=options), timeout_seconds=5)


PIPE = """
import os, select, socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
ways = {0: connection.sendall, connection.fileno(): lambda data: os.write(1, data)}
while True:
    for source in select.select(list(ways), [], [])[0]:
        if not (data := os.read(source, 65536)):
            sys.exit(0)
        ways[source](data)
"""


@pytest.mark.usefixtures("pinned")
def test_a_proxy_command_may_be_the_connection_itself(project, target, tmp_path):
    (tmp_path / "pipe.py").write_text(PIPE)
    options = {"proxycommand": f"{sys.executable} {tmp_path}/pipe.py %h %p"}

    with ssh.connect(replace(target, options=options), project.known_hosts) as connection:
        assert connection.run(["echo", "through"]).stdout == "through\n"


@pytest.mark.usefixtures("pinned")
def test_the_key_that_was_accepted_is_known(project, target, tmp_path):
    ssh_server.new_key(tmp_path, "stranger")
    keys = (tmp_path / "stranger", tmp_path / "login_key")

    with ssh.connect(replace(target, keys=keys), project.known_hosts) as connection:
        assert connection.key_file == tmp_path / "login_key"


@pytest.mark.usefixtures("pinned")
def test_a_host_key_of_another_kind_is_a_changed_one(project, target, server):
    server.host_key = paramiko.ECDSAKey.generate()

    with pytest.raises(ssh.HostKeyChangedError) as caught:
        ssh.connect(target, project.known_hosts)

    assert _public(server.host_key).fingerprint in caught.value.found


class TestPinning:
    def test_a_given_fingerprint_pins_the_key(self, project, target, server):
        fingerprint = _public(server.host_key).fingerprint

        enrol.pin_host_key(project, target, vouched=None, fingerprint=fingerprint, confirm=None)

        assert ssh.pinned_keys(project.known_hosts, target) == [_public(server.host_key)]

    def test_another_fingerprint_pins_nothing(self, project, target):
        wrong = "SHA256:" + "A" * 43
        with pytest.raises(enrol.HostKeyRefusedError, match="--fingerprint says"):
            enrol.pin_host_key(project, target, vouched=None, fingerprint=wrong, confirm=None)

        assert not project.known_hosts.exists()

    def test_without_a_terminal_and_a_fingerprint_nothing_is_pinned(self, project, target, server):
        with pytest.raises(enrol.HostKeyRefusedError) as caught:
            enrol.pin_host_key(project, target, vouched=None, fingerprint=None, confirm=None)

        assert _public(server.host_key).fingerprint in caught.value.found
        assert not project.known_hosts.exists()

    @pytest.mark.parametrize("answer", [True, False])
    def test_a_person_decides_on_a_terminal(self, project, target, server, answer):
        shown = []

        def confirm(key):
            shown.append(key)
            return answer

        if answer:
            enrol.pin_host_key(project, target, vouched=None, fingerprint=None, confirm=confirm)
        else:
            with pytest.raises(enrol.HostKeyRefusedError, match="not confirmed"):
                enrol.pin_host_key(project, target, vouched=None, fingerprint=None, confirm=confirm)

        assert shown == [_public(server.host_key)]
        assert bool(ssh.pinned_keys(project.known_hosts, target)) is answer

    @pytest.mark.usefixtures("pinned")
    def test_a_pinned_key_is_not_asked_for_again(self, project, target, server):
        server.close()

        key = enrol.pin_host_key(project, target, vouched=None, fingerprint=None, confirm=None)

        assert key == _public(server.host_key)

    @pytest.mark.usefixtures("pinned")
    def test_a_fingerprint_beside_a_pinned_key_must_agree_with_it(self, project, target):
        with pytest.raises(enrol.HostKeyRefusedError, match="is pinned"):
            enrol.pin_host_key(project, target, vouched=None, fingerprint="SHA256:" + "B" * 43, confirm=None)

    @pytest.mark.usefixtures("pinned")
    def test_pins_of_other_hosts_are_kept(self, project, target, server):
        other = replace(target, name="node2", address="192.0.2.7")
        enrol.pin_host_key(project, other, vouched=_public(server.host_key), fingerprint=None, confirm=None)

        assert ssh.pinned_keys(project.known_hosts, target)
        assert ssh.pinned_keys(project.known_hosts, other)

    def test_hosts_that_are_pinned_side_by_side_are_all_kept(self, project, target, server):
        others = [replace(target, name=f"node{number}", address=f"192.0.2.{number}") for number in range(32)]

        def pin(other):
            enrol.pin_host_key(project, other, vouched=_public(server.host_key), fingerprint=None, confirm=None)

        with ThreadPoolExecutor(max_workers=32) as pool:
            list(pool.map(pin, others))

        assert all(ssh.pinned_keys(project.known_hosts, other) for other in others)

    @pytest.mark.usefixtures("pinned")
    def test_openssh_reads_the_same_file(self, project, target):
        found = subprocess.run(
            ["ssh-keygen", "-F", target.known_hosts_name, "-f", str(project.known_hosts)],
            capture_output=True,
            text=True,
            check=False,
            timeout=10,
        )

        assert found.returncode == 0
        assert "ssh-ed25519" in found.stdout


class TestOurKey:
    def test_a_missing_key_is_made_once(self, tmp_path):
        path = tmp_path / "keys" / "id_ed25519"

        first = enrol.ensure_key(path, "ironlease node1")

        assert first.startswith("ssh-ed25519 ")
        assert path.stat().st_mode & 0o777 == 0o600
        assert enrol.ensure_key(path, "another comment") == first

    def test_it_is_made_once_by_all_who_need_it_at_the_same_time(self, tmp_path):
        path = tmp_path / "keys" / "id_ed25519"

        with ThreadPoolExecutor(max_workers=8) as pool:
            made = set(pool.map(lambda _: enrol.ensure_key(path, "ironlease"), range(8)))

        assert len(made) == 1

    def test_a_missing_public_half_is_derived(self, tmp_path):
        path = tmp_path / "id_ed25519"
        public = enrol.ensure_key(path, "x")
        path.with_name("id_ed25519.pub").unlink()

        assert enrol.ensure_key(path, "x").split()[:2] == public.split()[:2]

    @pytest.mark.usefixtures("pinned")
    @pytest.mark.parametrize("existing", [None, "ssh-ed25519 AAAAother someone", "ssh-ed25519 AAAAother someone\n"])
    def test_it_is_added_to_what_is_there_and_only_once(self, project, target, tmp_path, monkeypatch, existing):
        home = tmp_path / "remote-home"
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        keys = home / ".ssh" / "authorized_keys"
        if existing is not None:
            keys.parent.mkdir()
            keys.write_text(existing)

        with ssh.connect(target, project.known_hosts) as connection:
            assert enrol.install_key(connection, "ssh-ed25519 AAAAours ironlease") is True
            assert enrol.install_key(connection, "ssh-ed25519 AAAAours ironlease") is False

        lines = keys.read_text().splitlines()
        assert lines == [*([existing.strip()] if existing else []), "ssh-ed25519 AAAAours ironlease"]
        assert keys.stat().st_mode & 0o777 in {0o600, 0o644}


def test_what_was_read_arrives_unchanged(project, target, pinned, tmp_path):
    content = bytes(range(256)) * 5000
    (tmp_path / "blob").write_bytes(content)

    with ssh.connect(target, project.known_hosts) as connection:
        completed = connection.run(["cat", str(tmp_path / "blob")])

    assert hashlib.sha256(completed.output).digest() == hashlib.sha256(content).digest()
