"""The files of a host that is not running."""

import stat
from dataclasses import replace

import pytest

from ironlease.errors import UsageError
from ironlease.lab import host as host_module
from ironlease.lab.cgroups import ControlGroup
from ironlease.lab.errors import LabError
from ironlease.lab.host import Host, Machine
from ironlease.lab.instance import Instance
from ironlease.lab.keys import LabKeys
from ironlease.lab.layers import Layers

KEYS = LabKeys(login_public="ssh-ed25519 LOGIN lab", host_public="ssh-ed25519 HOST lab")
MACHINE = Machine(base="0123", layers=[], bind_read_only=["/srv/wheels"], route_out=True)


@pytest.fixture
def host(tmp_path, monkeypatch):
    monkeypatch.setattr("ironlease.lab.instance.DATA_ROOT", tmp_path / "data")
    monkeypatch.setattr(host_module, "HOST_KEY", tmp_path / "host_key")
    (tmp_path / "host_key").write_text("PRIVATE", encoding="ascii")
    return Host(Instance("unit"), ControlGroup(tmp_path, "group"), "lab1", "10.77.0.11")


@pytest.fixture
def lower(tmp_path):
    folder = tmp_path / "base"
    (folder / "root").mkdir(parents=True, mode=0o700)
    (folder / "etc/ssh").mkdir(parents=True, mode=0o755)
    return folder


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_host_has_its_name_keys_and_inheritance(host, lower):
    host.create(MACHINE, lower, {"/etc/pip.conf": "[global]\n"}, KEYS)

    assert (host.upper / "etc/hostname").read_text() == "lab1\n"
    assert (host.upper / "etc/machine-id").read_text() == ""
    assert (host.upper / "etc/pip.conf").read_text() == "[global]\n"
    assert (host.upper / "root/.ssh/authorized_keys").read_text() == "ssh-ed25519 LOGIN lab\n"
    assert host.machine() == MACHINE


def test_folders_keep_the_modes_that_they_have_below(host, lower):
    host.create(MACHINE, lower, {}, KEYS)

    assert mode(host.upper / "root") == 0o700
    assert mode(host.upper / "root/.ssh") == 0o700
    assert mode(host.upper / "etc") == 0o755
    assert mode(host.upper / "etc/ssh/ssh_host_ed25519_key") == 0o600


def test_other_users_of_the_computer_cannot_look_into_a_host(host, lower):
    host.create(MACHINE, lower, {}, KEYS)

    assert mode(host.folder) == 0o700


def test_half_a_host_is_none(host, lower):
    host.create(MACHINE, lower, {}, KEYS)
    (host.folder / "machine.json").write_text('{"base": ', encoding="utf-8")

    assert host.machine() is None
    with pytest.raises(LabError):
        host.existing_machine()


def test_a_new_host_has_nothing_of_the_old_one(host, lower):
    host.create(MACHINE, lower, {}, KEYS)
    (host.upper / "root/marker").touch()

    host.create(MACHINE, lower, {}, KEYS)

    assert not (host.upper / "root/marker").exists()


def test_a_host_remembers_that_it_has_no_way_out(host, lower):
    host.create(MACHINE, lower, {}, KEYS)

    host.remember_route_out(False)

    assert host.existing_machine() == replace(MACHINE, route_out=False)


def test_a_layer_takes_the_hosts_files_and_both_go_on_above_it(host, lower):
    layers = Layers(host.instance)
    host.create(MACHINE, lower, {}, KEYS)
    (host.upper / "root/marker").touch()

    layers.save(host, "done")

    assert (layers.folder("done") / "root/marker").exists()
    assert list(host.upper.iterdir()) == []
    assert host.machine() == layers.machine_on("done") == Machine("0123", ["done"], ["/srv/wheels"], True)


def test_layers_pile_up_with_the_newest_first(host, lower):
    layers = Layers(host.instance)
    host.create(MACHINE, lower, {}, KEYS)
    layers.save(host, "one")
    layers.save(host, "two")

    assert layers.machine_on("two").layers == ["two", "one"]
    assert layers.names() == ["one", "two"]


def test_a_layer_is_never_replaced(host, lower):
    layers = Layers(host.instance)
    host.create(MACHINE, lower, {}, KEYS)
    layers.save(host, "one")

    with pytest.raises(UsageError) as refused:
        layers.save(host, "one")

    assert refused.value.code == "lab-layer-taken"


def test_an_unknown_layer_names_the_nearest(host, lower):
    layers = Layers(host.instance)
    host.create(MACHINE, lower, {}, KEYS)
    layers.save(host, "provisioned")

    with pytest.raises(UsageError) as refused:
        layers.machine_on("provisoned")

    assert "provisioned" in refused.value.needed
