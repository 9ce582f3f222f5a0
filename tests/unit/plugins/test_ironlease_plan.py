import json

import pytest

from ironlease.errors import CombinedError, UsageError


@pytest.fixture
def action(load_plugin):
    return load_plugin("action/ironlease_plan")


@pytest.fixture
def filters(load_plugin):
    return load_plugin("../roles/node_agent/filter_plugins/file_sha256").FilterModule().filters()


def error(number):
    return UsageError(found=f"f{number}", needed=f"n{number}", next_step=f"s{number}")


def test_every_error_becomes_three_lines(action):
    assert action.message(error(1)) == "Found: f1\nNeeded: n1\nNext: s1"
    assert action.message(CombinedError([error(1), error(2)])).splitlines()[3:] == [
        "Found: f2",
        "Needed: n2",
        "Next: s2",
    ]


def test_a_stored_plan_is_taken_as_it_is(action, tmp_path):
    (tmp_path / "node1.json").write_text('{"values": {"a": 1}}')

    assert action.stored_plan(tmp_path, "node1") == {"values": {"a": 1}}


@pytest.mark.parametrize("content", [None, "{"])
def test_a_stored_plan_that_cannot_be_read_stops_the_host(action, tmp_path, content):
    if content is not None:
        (tmp_path / "node1.json").write_text(content)

    with pytest.raises(UsageError) as refused:
        action.stored_plan(tmp_path, "node1")
    assert (refused.value.code, refused.value.next_step) == ("no-plan", "invoke provision --host node1")


def test_a_probe_is_the_agents_answer(action):
    assert action.probe_of("node1", {"rc": 0, "stdout": '{"hostname": "x"}\r\n'}) == {"hostname": "x"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"rc": 127, "stdout": "", "stderr": "timeout: failed to run command '/usr/bin/python3'"}, "failed to run"),
        ({"rc": 124, "stdout": "", "stderr": ""}, "did not end within 120 s"),
        ({"rc": 0, "stdout": "", "stderr": ""}, "it printed nothing"),
        ({"rc": 0, "stdout": "[1]", "stderr": ""}, "[1]"),
        ({"rc": 70, "stdout": "{}", "stderr": "Traceback"}, "Traceback"),
    ],
    ids=["no-python", "hung", "silent", "no-object", "crash"],
)
def test_anything_else_is_no_probe(action, answer, words):
    with pytest.raises(UsageError) as refused:
        action.probe_of("node1", answer)
    assert words in refused.value.found


def test_only_inventories_that_are_files_or_folders_are_read(action, monkeypatch, tmp_path):
    (tmp_path / "hosts.yml").touch()
    monkeypatch.setattr(action.context, "CLIARGS", {"inventory": (f"{tmp_path}/hosts.yml", "node1,")})

    assert action.inventory_sources() == [tmp_path / "hosts.yml"]


def test_a_host_without_a_stack_is_told_what_to_add(action, tmp_path):
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": {"node1": {"ansible_host": "192.0.2.1"}}}}))

    for host in ("node1", "node2"):
        with pytest.raises(UsageError) as refused:
            action.resolved_plan([inventory], host, {}, "0" * 64)
        assert refused.value.next_step.startswith(f"Add ironlease_stack to {host}")


def test_the_filter_takes_bytes_as_they_are(filters, tmp_path):
    (tmp_path / "archive").write_bytes(b"\xff\x00")

    # Told by sha256sum of coreutils.
    expected = "ea5dbf9596d187e9500f23e9a680109475341cf4e81f7e043f7d97152c10772f"
    assert filters["file_sha256"](str(tmp_path / "archive")) == expected
    assert filters["file_sha256"](str(tmp_path / "none")) == "no such file"
