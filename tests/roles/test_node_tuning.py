from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.lab

ROLE = "node_tuning"
SYSCTL = "configure | Set the kernel parameters"
LIMITS_FILE = "/etc/security/limits.d/90-ironlease.conf"
SYSCTL_FILE = "/etc/sysctl.d/90-ironlease.conf"
VARIABLES = {
    # A lab host may lower its limits; memlock it may not raise, as on every host without CAP_SYS_RESOURCE.
    "node_tuning_limits": {"memlock": "unlimited", "nofile": 4096},
    # vm.* belongs to the whole machine, which a lab host shares.
    "node_tuning_sysctl": {"net.core.somaxconn": 8192, "net.ipv4.tcp_rmem": "4096 131072 8388608", "vm.swappiness": 1},
    "node_tuning_shm_size": "256M",
}


def live(machine):
    return {
        name: machine.run("cat", f"/proc/sys/{name.replace('.', '/')}").split()
        for name in VARIABLES["node_tuning_sysctl"]
    }


@pytest.fixture(scope="module")
def first(machine):
    """Check mode on the clean host, then the first run."""
    before, live_before = machine.state(), live(machine)
    checked = machine.play(ROLE, VARIABLES, check=True)
    after_check, live_after_check = machine.state(), live(machine)
    converged = machine.play(ROLE, VARIABLES)
    assert converged.problems == []
    return SimpleNamespace(
        before=(before, live_before), checked=checked, after_check=(after_check, live_after_check), converged=converged
    )


def test_check_mode_tells_what_would_change_and_changes_nothing(first):
    assert first.checked.problems == []
    assert len(first.checked.changed) == 5
    assert f"{SYSCTL_FILE} written" in first.checked.changed[SYSCTL]
    assert first.after_check == first.before


def test_what_the_kernel_does_not_permit_is_told_and_the_rest_is_done(first, machine):
    result = first.converged.result_of(SYSCTL)

    assert list(result["refused"]) == ["vm.swappiness"]
    assert "vm.swappiness" in result["warnings"][0]
    assert live(machine)["net.core.somaxconn"] == ["8192"]
    # The next boot may be on a kernel that does permit it.
    assert "vm.swappiness = 1\n" in machine.run("cat", SYSCTL_FILE)


def test_a_second_run_changes_nothing(first, machine):
    outcome = machine.play(ROLE, VARIABLES)

    assert outcome.problems == []
    assert outcome.changed == {}


def test_everything_holds_after_a_boot(first, machine):
    machine.restart()

    verified = machine.play(ROLE, VARIABLES, entry="verify")
    again = machine.play(ROLE, VARIABLES)

    assert verified.problems == []
    evidence = verified.result_of("verify | Assert that a new session has the limits")["msg"]
    assert '"nofile": 4096' in evidence
    assert '"not_permitted": ["memlock"]' in evidence
    assert again.changed == {}


@pytest.mark.parametrize(
    ("damage", "mended_by"),
    [
        ("sysctl --quiet --write net.core.somaxconn=128", SYSCTL),
        (f"sed -i /somaxconn/d {SYSCTL_FILE}", SYSCTL),
        (f"chmod 600 {SYSCTL_FILE}", SYSCTL),
        (f"rm {LIMITS_FILE}", "install | Raise the limits of login sessions"),
        ("mount -o remount,size=64M /dev/shm", "configure | Size the shared memory now"),
    ],
    ids=["live-value", "file", "mode", "limits", "shared-memory"],
)  # fmt: skip
def test_verify_sees_what_is_broken_and_a_plain_run_mends_it(first, machine, damage, mended_by):
    machine.shell(damage)

    seen = machine.play(ROLE, VARIABLES, entry="verify")
    mended = machine.play(ROLE, VARIABLES)

    assert [error.code for error in seen.errors] == ["refused"]
    assert set(mended.changed) == {mended_by}


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_tuning_limits": {"memlok": "unlimited"}},
        {"node_tuning_limits": {"nofile": "many"}},
        {"node_tuning_shm_size": "64 gigabytes"},
        # The first is a name that no kernel has ever had; the second a value that this one calls invalid.
        {"node_tuning_sysctl": {"somaxconn": 8192}},
        {"node_tuning_sysctl": {"net.core.somaxconn": 4096, "net.ipv4.ip_default_ttl": 0}},
    ],
    ids=["limit", "limit-value", "size", "name", "value"],
)
def test_bad_input_is_refused_and_nothing_is_changed(first, machine, wrong):
    before = (machine.state(), live(machine))

    outcome = machine.play(ROLE, {**VARIABLES, **wrong})

    assert [error.code for error in outcome.errors] == ["refused"]
    assert outcome.errors[0].next_step.startswith("Correct")
    assert (machine.state(), live(machine)) == before


def test_another_size_takes_effect_at_once(first, machine):
    outcome = machine.play(ROLE, {**VARIABLES, "node_tuning_shm_size": "128M"})

    assert outcome.problems == []
    assert machine.shell("findmnt --noheadings --bytes --output=SIZE /dev/shm").strip() == str(128 << 20)
