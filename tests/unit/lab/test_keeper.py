"""The start order of a lab host and the commands that follow from it."""

from dataclasses import replace

import pytest

from ironlease.lab import keeper
from ironlease.lab.keeper import Ticket, nspawn_command, nspawn_environment, overlay_options

TICKET = Ticket(
    machine="ironlease-x-lab1",
    hostname="lab1",
    folder="/data/lab1",
    lower=["/layers/one", "/base"],
    namespace="/run/ironlease/lab/x/net/host-lab1",
    cgroup_mount="/sys/fs/cgroup",
    host_cgroup="ironlease-lab/x/host-lab1",
    bind_read_only=["/srv/wheels"],
)


def test_a_ticket_survives_its_file(tmp_path):
    path = tmp_path / "ticket.json"
    path.write_text(TICKET.as_json(), encoding="utf-8")

    assert Ticket.read(path) == TICKET


def test_a_withdrawn_ticket_ends_the_keeper_before_it_mounts_anything(tmp_path, monkeypatch):
    monkeypatch.setattr(keeper, "_mount", lambda *argv: pytest.fail(f"ran {argv}"))

    assert keeper.main([str(tmp_path / "ticket.json")]) == 0


def test_the_uppermost_layer_comes_first():
    assert overlay_options(TICKET) == "lowerdir=/layers/one:/base,upperdir=/data/lab1/upper,workdir=/data/lab1/work"


def test_folders_are_bound_read_only_and_a_colon_is_no_separator():
    command = nspawn_command(replace(TICKET, bind_read_only=["/srv/wheels", "/srv/a:b"]))

    assert [word for word in command if word.startswith("--bind")] == ["--bind-ro=/srv/wheels", "--bind-ro=/srv/a\\:b"]


def test_nothing_of_the_computer_learns_of_the_host():
    command = nspawn_command(TICKET)

    assert {"--register=no", "--keep-unit", "--link-journal=no", "--resolv-conf=off", "--timezone=off"} <= set(command)


def test_the_users_environment_does_not_reach_the_host(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")

    assert "hunter2" not in nspawn_environment().values()


@pytest.mark.parametrize(("codes", "boots"), [([0], 1), ([133, 133, 0], 3), ([1], 1), ([-9], 1)])
def test_a_host_boots_again_exactly_when_it_asked_for_a_reboot(tmp_path, monkeypatch, codes, boots):
    path = tmp_path / "ticket.json"
    path.write_text(replace(TICKET, cgroup_mount=str(tmp_path)).as_json(), encoding="utf-8")
    remaining = list(codes)
    monkeypatch.setattr(keeper, "_own_cgroup_tree", lambda mount: mount)
    monkeypatch.setattr(keeper, "_mount_all", lambda ticket: None)
    monkeypatch.setattr(keeper, "_boot", lambda ticket, group: remaining.pop(0))

    keeper.main([str(path)])

    assert len(codes) - len(remaining) == boots
