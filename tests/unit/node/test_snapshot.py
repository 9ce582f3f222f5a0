from __future__ import annotations

import errno
import json
import os
import stat
import tarfile

import pytest

from ironlease_node import snapshot
from ironlease_node.refusal import Refusal
from ironlease_node.snapshot import archive, document, secrets

SECRETS = {
    "/etc/shadow": "root:$6$salt$s3cret-hash:1::::::\n",
    "/etc/gshadow-": "x:s3cret-hash::\n",
    "/etc/ssh/ssh_host_ed25519_key": "s3cret-hash\n",
    "/etc/ssl/private/site.pem": "s3cret-hash\n",
    "/etc/NetworkManager/system-connections/wifi.nmconnection": "psk=s3cret-hash\n",
    "/etc/wireguard/wg0.conf": "s3cret-hash\n",
    "/etc/apt/auth.conf.d/repo.conf": "machine x login y password s3cret-hash\n",
    "/etc/docker/config.json": '{"auths": {"x": {"auth": "s3cret-hash"}}}',
    "/etc/ironlease/store.env": "s3cret-hash\n",
    "/etc/app/tls.conf": "x\n-----BEGIN RSA PRIVATE KEY-----\ns3cret-hash\n",
    "/etc/app/proxy.conf": "proxy = http://user:s3cret-hash@proxy.example.com:3128\n",
    "/etc/app/service.ini": "[auth]\n  api_token = s3cret-hash\n",
    "/etc/app/service.json": '{"db": {"password": "s3cret-hash"}}',
    "/etc/app/env": "export AWS_SECRET_ACCESS_KEY=s3cret-hash\n",
    "/etc/big.db": b"s3cret-hash" + b"x" * archive.LARGEST_FILE_BYTES,
}
KEPT = {
    "/etc/hosts": "127.0.0.1 localhost\n",
    "/etc/ssh/ssh_host_ed25519_key.pub": "ssh-ed25519 AAAA host\n",
    "/etc/ssh/sshd_config": "PasswordAuthentication no\n# token: example1234\n",
    "/etc/nsswitch.conf": "passwd:         files systemd\nshadow:         files\n",
    "/etc/pam.d/common-password": "password requisite pam_unix.so\n",
    "/etc/sudoers": "%sudo ALL=(ALL:ALL) ALL\n",
}


@pytest.fixture
def saved(gpu_server, tools, plant_files, tmp_path):
    plant_files({**SECRETS, **KEPT})
    (gpu_server.root / "etc/localtime").symlink_to("/usr/share/zoneinfo/Etc/UTC")
    os.mkfifo(gpu_server.root / "etc/pipe")
    (gpu_server.root / "etc/hosts").chmod(0o640)
    tools.answers["systemctl"] = "ssh.service enabled enabled\nfoo.timer masked disabled\n"
    directory = tmp_path / "state" / "seller-state"
    return snapshot.save(gpu_server, tools, directory), directory


def members(path):
    with tarfile.open(path) as tar:
        return {member.name: (member, tar.extractfile(member)) for member in tar.getmembers()}


def test_files_are_kept_as_they_were(saved):
    answer, directory = saved
    with tarfile.open(answer["path"]) as tar:
        kept = {member.name: member for member in tar.getmembers()}
        for path, content in KEPT.items():
            assert tar.extractfile(path.lstrip("/")).read().decode() == content
    assert kept["etc/hosts"].mode & 0o7777 == 0o640
    assert kept["etc/localtime"].linkname == "/usr/share/zoneinfo/Etc/UTC"
    assert kept["etc/apt"].isdir()
    assert answer["path"] == str(directory / "etc.tar.gz")
    assert answer["already_there"] is False
    assert answer["schema"] == "ironlease.seller-state/1"


def test_no_secret_is_kept_and_each_is_named_with_its_reason(saved):
    answer, directory = saved
    with tarfile.open(answer["path"]) as tar:
        names = {member.name for member in tar.getmembers()}
        content = b"".join(tar.extractfile(member).read() for member in tar.getmembers() if member.isfile())

    assert not names & {path.lstrip("/") for path in SECRETS}
    assert b"s3cret" not in content
    assert "s3cret" not in (directory / "state.json").read_text()
    left_out = answer["document"]["left_out"]
    assert set(SECRETS) <= set(left_out)
    assert left_out["/etc/pipe"] == "it is a device, a pipe or a socket"
    assert left_out["/etc/app/tls.conf"] == "it holds a private key"
    # The seller's source with a password in its URL is described, without the password.
    assert left_out["/etc/apt/sources.list.d/cuda.list"] == "a URL in it holds a password"


def test_document(saved):
    content = saved[0]["document"]

    assert content["packages"]["libc6"] == "2.35-0ubuntu3.8"
    assert content["holds"] == ["libc6"]
    assert content["automatic_packages"] == ["libc6"]
    assert content["kernel_modules"] == ["mlx5_core", "nvidia", "nvidia_uvm"]
    assert content["kernel_release"] == "5.15.0-130-generic"
    assert content["sysctl"]["vm.swappiness"] == "60"
    assert content["unit_files"] == {"ssh.service": "enabled", "foo.timer": "masked"}
    assert content["authorized_keys"] == [
        {
            "user": "ml",
            "path": "/home/ml/.ssh/authorized_keys",
            "fingerprints": ["ssh-ed25519 SHA256:ZkAslGjFiUHdGf/WUL8rQvkib4PTvQatUV0OUQSncCA"],
        }
    ]
    cuda = next(source for source in content["apt_sources"] if source["path"].endswith("cuda.list"))
    assert cuda["credentials_removed"] is True
    assert "https://repo.example.com/" in cuda["content"]
    assert content["problems"] == []


def test_only_root_can_read_it(saved):
    directory = saved[1]

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert sorted(path.name for path in directory.parent.iterdir()) == ["seller-state"]


def test_a_second_time_nothing_is_overwritten(saved, gpu_server, tools, plant_files):
    first, directory = saved
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    plant_files({"/etc/hosts": "changed by us\n"})

    second = snapshot.save(gpu_server, tools, directory)

    assert second == {**first, "already_there": True}
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


@pytest.mark.parametrize("damage", ["archive", "document", "archive-gone", "stranger"])
def test_damaged_state_is_refused_and_left_alone(saved, gpu_server, tools, damage):
    _, directory = saved
    if damage == "archive":
        (directory / "etc.tar.gz").write_bytes(b"half")
    elif damage == "document":
        (directory / "state.json").write_text("{")
    elif damage == "archive-gone":
        (directory / "etc.tar.gz").unlink()
    else:
        (directory / "state.json").write_text("[]")
    before = sorted(path.name for path in directory.iterdir())

    with pytest.raises(Refusal) as caught:
        snapshot.save(gpu_server, tools, directory)

    assert caught.value.code == "seller-state-damaged"
    assert str(directory) in caught.value.next_step
    assert sorted(path.name for path in directory.iterdir()) == before


def test_an_empty_folder_is_filled(gpu_server, tools, tmp_path):
    (tmp_path / "state").mkdir(mode=0o755)

    assert snapshot.save(gpu_server, tools, tmp_path / "state")["already_there"] is False
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_full_disk_is_found_before_anything_is_written(gpu_server, tools, tmp_path, monkeypatch):
    real = os.statvfs(tmp_path)
    full = type("Full", (), {"f_bavail": 10, "f_frsize": real.f_frsize})
    monkeypatch.setattr(os, "statvfs", lambda path: full)

    with pytest.raises(Refusal) as caught:
        snapshot.save(gpu_server, tools, tmp_path / "state" / "seller-state")

    assert caught.value.code == "disk-full"
    assert list((tmp_path / "state").iterdir()) == []


def test_a_disk_that_fills_up_meanwhile_leaves_nothing_half_done(gpu_server, tools, tmp_path, monkeypatch):
    def fill(host, target):
        target.write(b"begun")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(archive, "write", fill)

    with pytest.raises(Refusal) as caught:
        snapshot.save(gpu_server, tools, tmp_path / "state" / "seller-state")

    assert caught.value.code == "disk-full"
    assert list((tmp_path / "state").iterdir()) == []


def test_what_a_killed_agent_left_is_removed(gpu_server, tools, tmp_path):
    leftover = tmp_path / ".seller-state.abcd"
    leftover.mkdir()
    (leftover / "etc.tar.gz").write_bytes(b"half")

    snapshot.save(gpu_server, tools, tmp_path / "seller-state")

    assert not leftover.exists()


def test_a_place_that_cannot_be_written(gpu_server, tools, tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(Refusal) as caught:
        snapshot.save(gpu_server, tools, tmp_path / "file" / "seller-state")

    assert caught.value.code == "not-writable"


def test_what_cannot_be_read_is_a_problem_of_the_document(root, no_tools, tmp_path):
    from ironlease_node.host import Host

    answer = snapshot.save(Host(root), no_tools, tmp_path / "seller-state")

    parts = {entry["part"] for entry in answer["document"]["problems"]}
    assert {"packages", "unit_files", "kernel_modules", "os"} <= parts
    assert answer["document"]["unit_files"] is None


def test_listing_ends_at_its_limit(gpu_server, plant_files, monkeypatch):
    plant_files({f"/opt/a/b/c/d/{number}": "" for number in range(3)})
    plant_files({f"/opt/many/{number}": "" for number in range(5)})

    listing = document._listing(gpu_server, "/opt")
    assert {"path": "/opt/a/b/c", "type": "directory"}.items() <= next(
        entry for entry in listing["entries"] if entry["path"] == "/opt/a/b/c"
    ).items()
    assert not any(entry["path"].startswith("/opt/a/b/c/") for entry in listing["entries"])
    assert listing["truncated"] is False

    monkeypatch.setattr(document, "LISTING_ENTRIES", 4)
    assert document._listing(gpu_server, "/opt")["truncated"] is True


@pytest.mark.parametrize(
    "path", ["shadow", "SSH/ssh_host_rsa_key", "a/b/server.key", "x/my-Token.txt", "ppp/chap-secrets"]
)
def test_secret_paths(path):
    assert secrets.reason_by_path(path)


@pytest.mark.parametrize(
    "path", ["passwd", "ssh/ssh_host_rsa_key.pub", "pam.d/common-password", "machine-id", "keyboard"]
)
def test_harmless_paths(path):
    assert secrets.reason_by_path(path) is None


def test_bad_request():
    with pytest.raises(Refusal):
        snapshot.answer({"directory": "relative/path"})
    assert json.dumps(snapshot.SCHEMA)
