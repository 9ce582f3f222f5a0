"""Wrong words, wrong times, wrong hosts: refused before anything is changed, with what to do instead."""

import json
from datetime import UTC, datetime, timedelta

import pytest

pytestmark = pytest.mark.lab

LAB1 = {"ansible_host": "10.77.0.11"}


def provision(desk, fleet, *flags, host="lab1"):
    return desk.invoke("provision", "--inventory", fleet, "--host", host, *flags)


@pytest.mark.parametrize(
    ("arguments", "code", "offered"),
    [
        (["--host", "lab9"], "unknown-host", "lab1"),
        (["--host", "lab1", "--stack", "torch-cpuu"], "unknown-stack", "did you mean torch-cpu"),
        (["--host", "lab1", "--chekc"], "usage", "--check"),
        (["--group", "gpu_node"], "unknown-group", "gpu_nodes"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_and_starts_nothing(workshop, arguments, code, offered):
    before = workshop.lab.list()

    ended = workshop.invoke("provision", "--inventory", "lab", *arguments)

    (error,) = ended.json["errors"]
    assert (ended.exit_code, error["code"]) == (2, code)
    assert offered in error["needed"]
    assert [host.state for host in workshop.lab.list()] == [host.state for host in before]


@pytest.mark.parametrize(
    ("variables", "code", "shown"),
    [
        ({"ironlease_laese": {"ends_at": "2027-01-01T00:00:00+08:00"}}, "unknown-key", "ironlease_lease"),
        ({"ironlease_lease": {"ends_at": "2027-01-01T00:00:00+08:00", "grace": 3}}, "unknown-key", "grace_hours"),
        ({"ironlease_lease": {"ends_at": "2027-01-01T00:00:00"}}, "bad-value", "offset"),
        ({"ironlease_lease": {"ends_at": "next tuesday"}}, "bad-value", "ISO 8601"),
        ({"ironlease_stack": "torch-cuda"}, "unknown-stack", "torch-cu"),
    ],
)
def test_a_mistake_in_the_inventory_is_shown_with_its_cure(workshop, tmp_path, variables, code, shown):
    desk = workshop.with_state_of_its_own(tmp_path)

    ended = provision(desk, desk.inventory(lab1={**LAB1, **variables}))

    (error,) = ended.json["errors"]
    assert (ended.exit_code, error["code"]) == (2, code)
    assert shown in error["needed"] + error["next"]
    assert not (desk.state / "known_hosts").exists()


def in_minutes(minutes):
    return (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat(timespec="seconds")


def test_a_lease_must_leave_the_time_and_one_that_does_goes_on(bench, acquainted):
    before = bench.inside("lab1", "stat --format=%Y /var/lib/dpkg/status /opt/ironlease /etc")

    over = provision(acquainted, acquainted.inventory(lab1={**LAB1, "ironlease_lease": {"ends_at": in_minutes(-5)}}))
    short = provision(acquainted, acquainted.inventory(lab1={**LAB1, "ironlease_lease": {"ends_at": in_minutes(10)}}))
    after = bench.inside("lab1", "stat --format=%Y /var/lib/dpkg/status /opt/ironlease /etc")
    long = acquainted.inventory(lab1={**LAB1, "ironlease_lease": {"ends_at": in_minutes(60 * 24 * 30)}})
    enough = provision(acquainted, long)
    again = provision(acquainted, long)

    assert (over.exit_code, over.codes()) == (2, ["lease-over"])
    assert (short.exit_code, short.codes()) == (2, ["lease-too-short"])
    assert "for a backup" in short.json["errors"][0]["needed"]
    assert "ends_at" in short.json["errors"][0]["next"]
    assert after == before
    assert enough.exit_code == 0, enough.stderr
    assert (again.exit_code, again.host("lab1")["changed"]) == (0, 0)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        ('s/^VERSION_ID=.*/VERSION_ID="10"/; s/^PRETTY_NAME=.*/PRETTY_NAME="Debian 10"/', "Debian 10"),
        ('s/^ID=.*/ID=rocky/; s/^PRETTY_NAME=.*/PRETTY_NAME="Rocky Linux 9.4"/', "Rocky Linux 9.4"),
    ],
)
def test_a_system_that_the_stack_was_not_made_for_is_refused(bench, change, shown):
    bench.inside("lab1", f"sed -i.seller '{change}' /etc/os-release")

    refused = bench.provision("lab1", flags=("--yes",))
    plan = bench.invoke("plan", "--host", "lab1")
    bench.inside("lab1", "mv /etc/os-release.seller /etc/os-release")

    (error,) = refused.json["errors"]
    assert (refused.exit_code, error["code"]) == (2, "distribution-unsupported")
    assert shown in error["found"]
    assert "debian 12" in error["needed"].casefold()
    assert (plan.exit_code, plan.codes()) == (2, ["distribution-unsupported"])
    assert bench.provision("lab1").exit_code == 0


def test_a_full_disk_is_seen_before_it_is_filled(bench):
    # A small file system where environments go, as a seller's own small root would be.
    bench.inside("lab1", "mount -t tmpfs -o size=300m small /opt")

    refused = bench.provision("lab1", flags=("--yes",))
    bench.inside("lab1", "umount /opt")

    (error,) = refused.json["errors"]
    assert (refused.exit_code, error["code"]) == (2, "disk-full")
    assert error["found"].startswith("/opt on lab1 has 0.3 GiB free")
    assert bench.provision("lab1").exit_code == 0


def test_a_disk_without_room_for_the_sellers_state_stops_before_the_first_change(bench):
    bench.inside(
        "lab1",
        "rm /etc/security/limits.d/90-ironlease.conf && "
        "mv /var/lib/ironlease /var/lib/ironlease.away && mkdir /var/lib/ironlease && "
        "mount -t tmpfs -o size=16m small /var/lib/ironlease",
    )

    refused = bench.provision("lab1", flags=("--yes",))
    untouched = bench.inside("lab1", "test ! -e /etc/security/limits.d/90-ironlease.conf && echo untouched")
    bench.inside(
        "lab1", "umount /var/lib/ironlease && rmdir /var/lib/ironlease && mv /var/lib/ironlease.away /var/lib/ironlease"
    )
    mended = bench.provision("lab1")

    (error,) = refused.json["errors"]
    assert (refused.exit_code, error["code"]) == (2, "disk-full")
    assert "seller's state" in error["needed"]
    assert untouched == "untouched"
    assert (mended.exit_code, mended.host("lab1")["changed"]) == (0, 1)


def test_a_host_without_python_is_told_what_it_lacks(bench):
    bench.inside("lab1", "mv /usr/bin/python3 /usr/bin/python3.away")

    refused = bench.provision("lab1")
    bench.inside("lab1", "mv /usr/bin/python3.away /usr/bin/python3")

    (error,) = refused.json["errors"]
    assert (refused.exit_code, error["code"]) == (2, "python-missing")
    assert "apt-get install" in error["next"]


def test_a_probe_that_does_not_know_what_the_plan_needs_is_no_reason_to_guess(bench):
    bench.inside("lab1", "mv /etc/os-release /etc/os-release.away; mv /usr/lib/os-release /usr/lib/os-release.away")

    refused = bench.provision("lab1")
    bench.inside("lab1", "mv /etc/os-release.away /etc/os-release; mv /usr/lib/os-release.away /usr/lib/os-release")

    assert (refused.exit_code, refused.codes()) == (5, ["probe-incomplete"])
    assert "os" in json.dumps(refused.json["errors"])
