from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.lab

ROLE = "host_base"
INSTALL = "install | Install the packages"
VARIABLES = {
    "host_base_packages": ["tree"],
    "host_base_user": "trainer",
    "host_base_time_sync_package": "systemd-timesyncd",
    "host_base_time_sync_unit": "systemd-timesyncd.service",
    # The clock of a lab host is the one of this computer, which nobody may set there.
    "host_base_time_sync_active": False,
    "host_base_apt_lock_wait_seconds": 60,
}
# A package that the role does not know yet, so that apt has something to do.
ANOTHER = {**VARIABLES, "host_base_packages": ["tree", "hello"]}


@pytest.fixture(scope="module")
def first(machine):
    """Check mode on the clean host, then the first run."""
    before = machine.state()
    checked = machine.play(ROLE, VARIABLES, check=True)
    after_check = machine.state()
    converged = machine.play(ROLE, VARIABLES)
    assert converged.problems == []
    return SimpleNamespace(before=before, checked=checked, after_check=after_check, converged=converged)


@pytest.fixture
def source(machine):
    """Writes a package source that is removed again."""

    def write(line):
        machine.write("/etc/apt/sources.list.d/test.list", f"{line}\n")

    yield write
    machine.run("rm", "-f", "/etc/apt/sources.list.d/test.list")


def versions(machine):
    return machine.run("dpkg-query", "--show")


def test_check_mode_tells_what_is_missing_and_changes_nothing(first):
    assert first.checked.problems == []
    assert first.checked.changed[INSTALL] == ["install tree, systemd-timesyncd"]
    assert first.after_check == first.before


def test_a_second_run_changes_nothing(first, machine):
    outcome = machine.play(ROLE, VARIABLES)

    assert outcome.problems == []
    assert outcome.changed == {}


def test_verify_passes_on_evidence(first, machine):
    outcome = machine.play(ROLE, VARIABLES, entry="verify")

    assert outcome.problems == []
    assert outcome.result_of("verify | Assert that the packages are installed")["msg"] == "Installed: tree"


@pytest.mark.parametrize(
    ("damage", "mended_by"),
    [
        ("dpkg --purge tree", INSTALL),
        ("userdel trainer", "install | Create the user for trainings"),
        ("systemctl disable systemd-timesyncd.service", "configure | Keep the clock right"),
    ],
    ids=["package", "user", "clock"],
)
def test_verify_sees_what_is_broken_and_a_plain_run_mends_it(first, machine, damage, mended_by):
    machine.shell(damage)

    seen = machine.play(ROLE, VARIABLES, entry="verify")
    mended = machine.play(ROLE, VARIABLES)

    assert [error.code for error in seen.errors] == ["refused"]
    assert set(mended.changed) == {mended_by}


@pytest.mark.parametrize("user", ["root", "Train Er"])
def test_a_user_that_is_none_is_refused_and_nothing_is_changed(first, machine, user):
    before = machine.state()

    outcome = machine.play(ROLE, {**ANOTHER, "host_base_user": user})

    assert outcome.errors[0].needed.startswith("A user name")
    assert machine.state() == before


def test_an_account_that_was_there_before_is_left_as_it_is(first, machine):
    machine.run("useradd", "--create-home", "--shell", "/bin/bash", "sellers")
    before = machine.run("getent", "passwd", "sellers")

    outcome = machine.play(ROLE, {**VARIABLES, "host_base_user": "sellers"})

    assert outcome.problems == []
    assert outcome.changed == {}
    assert machine.run("getent", "passwd", "sellers") == before


# Port 9 of the host itself: nobody listens there.
UNREACHABLE = ("deb http://127.0.0.1:9/debian stable main", "package-source-unreachable", "http://127.0.0.1:9/debian")
UNSIGNED = ("deb file:/srv/unsigned ./", "package-signature", "is not signed")


@pytest.mark.parametrize("case", [UNREACHABLE, UNSIGNED], ids=lambda case: case[1])
def test_a_source_that_cannot_be_trusted_stops_in_apts_own_words(first, machine, source, case):
    line, code, words = case
    machine.shell("mkdir -p /srv/unsigned; cd /srv/unsigned; : > Packages; echo 'Suite: stable' > Release")
    source(line)
    before = versions(machine)

    outcome = machine.play(ROLE, ANOTHER)
    nothing_to_do = machine.play(ROLE, VARIABLES)

    assert [error.code for error in outcome.errors] == [code]
    assert words in outcome.errors[0].found
    assert versions(machine) == before
    # Nothing is missing, so nobody asks the source.
    assert nothing_to_do.problems == []
    assert nothing_to_do.changed == {}


def test_an_unknown_package_is_told_by_name(first, machine):
    outcome = machine.play(ROLE, {**VARIABLES, "host_base_packages": ["tree", "no-such-thing"]})

    assert [error.code for error in outcome.errors] == ["package-missing"]
    assert "Unable to locate package no-such-thing" in outcome.errors[0].found


HOLD = """
systemd-run --quiet --collect --unit=holder python3 -c "
import fcntl, sys, time
handle = open('/var/lib/dpkg/lock-frontend', 'w')
fcntl.lockf(handle, fcntl.LOCK_EX)
open('/run/held', 'w').close()
time.sleep(float(sys.argv[1]))
" {seconds}
while [ ! -e /run/held ]; do sleep 0.1; done
rm /run/held
"""


def test_a_lock_that_stays_is_told_with_its_holder(first, machine):
    machine.shell(HOLD.format(seconds=300))
    try:
        outcome = machine.play(ROLE, {**ANOTHER, "host_base_apt_lock_wait_seconds": 1})
    finally:
        machine.shell("systemctl stop holder")

    assert [error.code for error in outcome.errors] == ["package-lock"]
    assert "/var/lib/dpkg/lock-frontend: held by process" in outcome.errors[0].found
    assert "python3 -c import fcntl" in outcome.errors[0].found


def break_dpkg(machine, state):
    machine.shell(f"sed -i '/^Package: tree$/,/^$/ s/^Status: .*/Status: install {state}/' /var/lib/dpkg/status")


def test_a_broken_dpkg_is_repaired_only_where_that_is_allowed(first, machine):
    break_dpkg(machine, "ok half-configured")

    refused = machine.play(ROLE, VARIABLES)
    checked = machine.play(ROLE, {**VARIABLES, "host_base_repair_dpkg": True}, check=True)
    repaired = machine.play(ROLE, {**VARIABLES, "host_base_repair_dpkg": True})

    assert [error.code for error in refused.errors] == ["dpkg-broken"]
    assert "tree (half-configured)" in refused.errors[0].found
    assert refused.errors[0].next_step.startswith("dpkg --configure -a")
    assert checked.changed[INSTALL] == ["dpkg --configure -a", "install tree"]
    assert repaired.changed[INSTALL] == ["dpkg --configure -a"]
    assert machine.play(ROLE, VARIABLES, entry="verify").problems == []


def test_what_dpkg_cannot_repair_by_itself_is_told(first, machine):
    break_dpkg(machine, "reinstreq half-installed")
    try:
        outcome = machine.play(ROLE, {**VARIABLES, "host_base_repair_dpkg": True})
    finally:
        break_dpkg(machine, "ok installed")

    assert [error.code for error in outcome.errors] == ["dpkg-broken"]
    assert outcome.errors[0].next_step.startswith("apt-get install --reinstall tree")


def test_a_lock_that_is_given_back_is_waited_for(first, machine):
    machine.shell(HOLD.format(seconds=4))

    outcome = machine.play(ROLE, ANOTHER)

    assert outcome.problems == []
    assert outcome.changed == {INSTALL: ["install hello"]}
