import pytest

pytestmark = pytest.mark.lab

DISK = {"code": "disk-full", "found": "1 GB is free.", "needed": "9 GB.", "next_step": "df -h"}
LEASE = {"code": "lease-over", "found": "The lease is over.", "needed": "Time.", "next_step": "Extend it."}


def findings(*items):
    return {"host_preflight_findings": list(items)}


def test_a_host_with_nothing_in_the_way_passes(machine):
    outcome = machine.play("host_preflight", findings())

    assert outcome.problems == []
    assert outcome.changed == {}


@pytest.mark.parametrize("entry", ["main", "verify"])
def test_all_findings_are_told_at_once_and_nothing_is_changed(machine, entry):
    before = machine.state()

    outcome = machine.play("host_preflight", findings(DISK, LEASE), entry=entry)

    assert [(error.found, error.needed, error.next_step) for error in outcome.errors] == [
        (one["found"], one["needed"], one["next_step"]) for one in (DISK, LEASE)
    ]
    assert machine.state() == before


def test_a_list_that_nobody_made_is_no_pass(machine):
    outcome = machine.play("host_preflight", {})

    assert outcome.problems
    assert "host_preflight_findings" in outcome.errors[0].found
