import json
from types import SimpleNamespace

import pytest

from ironlease import agent_archive

pytestmark = pytest.mark.lab

ROLE = "node_agent"
AGENT = "install | Put the agent in place"
CONFIG = {"host": "lab1", "stack": "torch-cpu", "lease": {"ends_at": "2030-01-01T00:00:00+00:00"}}


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    archive = tmp_path_factory.mktemp("agent") / "agent.pyz"
    return {
        "node_agent_sha256": agent_archive.build(archive),
        "node_agent_archive": str(archive),
        "node_agent_config": CONFIG,
    }


@pytest.fixture(scope="module")
def first(machine, variables):
    """Check mode on the clean host, then the first run."""
    before = machine.state()
    checked = machine.play(ROLE, variables, check=True)
    after_check = machine.state()
    converged = machine.play(ROLE, variables)
    assert converged.problems == []
    return SimpleNamespace(before=before, checked=checked, after_check=after_check)


def test_check_mode_tells_what_would_change_and_changes_nothing(first):
    assert first.checked.problems == []
    assert AGENT in first.checked.changed
    assert first.after_check == first.before


def test_a_second_run_changes_nothing(first, machine, variables):
    outcome = machine.play(ROLE, variables)

    assert outcome.problems == []
    assert outcome.changed == {}


def test_verify_passes_and_the_configuration_is_what_was_given(first, machine, variables):
    assert machine.play(ROLE, variables, entry="verify").problems == []
    assert json.loads(machine.run("cat", "/etc/ironlease/node.json")) == CONFIG


@pytest.mark.parametrize(
    ("damage", "mended_by"),
    [
        ("echo >> /opt/ironlease/node/agent.pyz", AGENT),
        ("printf '#!/bin/sh\\necho {}\\n' > /usr/local/bin/ironlease-node", "install | Put its command in place"),
    ],
    ids=["agent", "command"],
)
def test_verify_sees_what_is_broken_and_a_plain_run_mends_it(first, machine, variables, damage, mended_by):
    machine.shell(damage)

    seen = machine.play(ROLE, variables, entry="verify")
    mended = machine.play(ROLE, variables)

    assert [error.code for error in seen.errors] == ["refused"]
    assert set(mended.changed) == {mended_by}


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_agent_sha256": "0" * 64},
        {"node_agent_archive": "/no/such/agent.pyz"},
        {"node_agent_config": {"store": {"secret_key": "planted"}}},
        {"node_agent_config": {"API_TOKEN": "planted"}},
    ],
    ids=["hash", "file", "secret", "token"],
)
def test_bad_input_is_refused_and_nothing_is_changed(first, machine, variables, wrong):
    before = machine.state()

    outcome = machine.play(ROLE, {**variables, **wrong})

    assert [error.code for error in outcome.errors] == ["refused"]
    assert "planted" not in outcome.errors[0].found
    assert machine.state() == before
