"""What a seller's package system can be like: sources that are gone or wrong, a broken dpkg, somebody else's lock."""

import contextlib
import subprocess

import pytest

pytestmark = pytest.mark.lab

# The seller's automatic upgrade, as far as its name and its lock are concerned.
UPGRADE = """
import fcntl, sys, time
lock = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(300)
"""

SELLERS_TOOL = """
mkdir -p /root/tool/DEBIAN && cd /root
cat > tool/DEBIAN/control <<'END'
Package: sellers-tool
Version: 1.0
Architecture: all
Maintainer: Seller <seller@example.org>
Description: half a tool
END
printf '#!/bin/sh\\ntest -e /root/licence\\n' > tool/DEBIAN/postinst
chmod 755 tool/DEBIAN/postinst
dpkg-deb --build tool sellers-tool.deb > /dev/null
"""


@pytest.fixture
def lacking(bench):
    """A workshop whose lab1 lacks one small package, so that apt has to be used."""
    bench.inside("lab1", "dpkg --purge chrony > /dev/null 2>&1")
    return bench


def installed(desk, package):
    return desk.inside("lab1", f"dpkg-query --show --showformat='${{db:Status-Status}}' {package} || true")


# What is done to the host, how it is undone, what is said of it, and the words that must be in it.
SAVE_SOURCES, RESTORE_SOURCES = "cp -a /etc/apt /root/apt.seller; ", "rm -r /etc/apt; mv /root/apt.seller /etc/apt"
FAULTS = {
    "nothing answers": (
        f"{SAVE_SOURCES} rm -f /etc/apt/sources.list.d/*; "
        "echo 'deb http://127.0.0.1:9/debian bookworm main' > /etc/apt/sources.list",
        RESTORE_SOURCES,
        (4, "package-source-unreachable"),
        "127.0.0.1",
    ),
    "another key": (
        f"{SAVE_SOURCES} sed -i 's,^Signed-By:.*,Signed-By: /usr/share/keyrings/debian-archive-removed-keys.gpg,' "
        "/etc/apt/sources.list.d/*.sources",
        RESTORE_SOURCES,
        (2, "package-signature"),
        "bookworm",
    ),
    "no signature at all": (
        f"{SAVE_SOURCES} mkdir -p /srv/mirror; touch /srv/mirror/Packages; echo 'Suite: x' > /srv/mirror/Release; "
        "rm -f /etc/apt/sources.list.d/*; echo 'deb file:/srv/mirror ./' > /etc/apt/sources.list.d/mirror.list",
        RESTORE_SOURCES,
        (2, "package-signature"),
        "/srv/mirror",
    ),
    "no room for what is downloaded": (
        "mount -t tmpfs -o size=100k small /var/cache/apt/archives",
        "umount /var/cache/apt/archives",
        (4, "disk-full"),
        "enough free space",
    ),
}


def test_sources_and_disks_that_fail_are_named_and_a_plain_second_run_completes(lacking):
    for name, (breaking, mending, expected, shown) in FAULTS.items():
        lacking.inside("lab1", breaking)
        # A disk that is too small is a warning on a host where we were before, and needs agreement.
        ended = lacking.provision("lab1", flags=("--yes",))
        lacking.inside("lab1", mending)

        (error,) = ended.json["errors"]
        assert (ended.exit_code, error["code"]) == expected, name
        assert shown in error["found"], name
        assert installed(lacking, "chrony") != "installed", name

    mended = lacking.provision("lab1")
    again = lacking.provision("lab1")

    assert mended.exit_code == 0, mended.stderr
    assert installed(lacking, "chrony") == "installed"
    assert (again.exit_code, again.host("lab1")["changed"]) == (0, 0)


def test_an_unfinished_package_of_the_sellers_is_finished_once_agreed(bench):
    bench.inside("lab1", f"{SELLERS_TOOL} dpkg --install sellers-tool.deb > /dev/null 2>&1 || touch /root/licence")
    # As on a host where no provisioning has begun yet.
    bench.inside("lab1", "mv /var/lib/ironlease /root/")

    unread = bench.provision("lab1")
    before = installed(bench, "sellers-tool")
    agreed = bench.on_a_terminal("provision", "--host", "lab1", answers={"Go on with this plan? [y/N]": "y"})
    again = bench.provision("lab1")

    (error,) = unread.json["errors"]
    assert (unread.exit_code, error["code"], before) == (2, "not-agreed", "half-configured")
    assert "sellers-tool (half-configured)" in error["found"]
    assert "--yes" in error["next"]
    assert agreed.exit_code == 0, agreed.stderr
    assert installed(bench, "sellers-tool") == "installed"
    assert (again.exit_code, again.host("lab1")["changed"]) == (0, 0)


def test_a_package_in_pieces_is_not_touched_and_its_cure_works(bench):
    bench.inside("lab1", f"{SELLERS_TOOL} touch licence; dpkg --install sellers-tool.deb > /dev/null 2>&1")
    bench.inside(
        "lab1",
        "sed -i '/^Package: sellers-tool$/,/^$/s/^Status: .*/Status: install reinstreq half-installed/' "
        "/var/lib/dpkg/status",
    )

    refused = bench.provision("lab1", flags=("--yes",))
    (error,) = refused.json["errors"]
    cure = error["next"].removeprefix("On the host: ").partition(", or ")[2]
    bench.inside("lab1", cure)

    assert (refused.exit_code, error["code"]) == (2, "dpkg-broken")
    assert "sellers-tool" in error["found"]
    assert bench.provision("lab1").exit_code == 0


@contextlib.contextmanager
def automatic_upgrade(desk):
    """Hold apt's lock inside the host from a process with the name of Debian's automatic upgrade."""
    target = desk.lab.run_inside("lab1", ["true"])
    assert target.returncode == 0
    desk.inside("lab1", f"cat > /root/upgrade.py <<'END'\n{UPGRADE}\nEND")
    desk.inside(
        "lab1",
        "systemd-run --quiet --unit=upgrade bash -c "
        "'exec -a /usr/bin/unattended-upgrade python3 -I /root/upgrade.py > /run/upgrade.said'; "
        "until grep -q held /run/upgrade.said; do sleep 0.1; done",
    )
    try:
        yield
    finally:
        desk.inside("lab1", "systemctl stop upgrade.service || true; rm -f /run/upgrade.said")


def test_somebody_elses_lock_is_waited_for_with_a_limit_and_a_name(lacking, acquainted):
    fleet = acquainted.inventory(lab1={"ansible_host": "10.77.0.11", "ironlease_apt_lock_wait_seconds": 2})

    with automatic_upgrade(lacking):
        refused = acquainted.invoke("provision", "--inventory", fleet, "--host", "lab1")
        with lacking.running("provision", "--host", "lab1") as command:
            command.wait_until_it_says("lab1: host_base")
            with pytest.raises(subprocess.TimeoutExpired):
                command.process.wait(3)
            lacking.inside("lab1", "systemctl stop upgrade.service")
            released = command.end()
    again = lacking.provision("lab1")

    (error,) = refused.json["errors"]
    assert (refused.exit_code, error["code"]) == (4, "package-lock")
    assert "unattended-upgrade" in error["found"]
    assert "ironlease_apt_lock_wait_seconds" in error["next"]
    assert released.exit_code == 0, released.stderr
    assert "in use by" in released.stderr
    assert (again.exit_code, again.host("lab1")["changed"]) == (0, 0)
