import pytest

from ironlease import diagnose
from ironlease.errors import ExitCode
from ironlease.runner import TaskEvent


def failed(**result):
    return TaskEvent(
        host="node1",
        kind="failed",
        role="host_base",
        task="install | Install the packages",
        module="ansible.builtin.apt",
        results=({"failed": True, **result},),
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (
            "W: GPG error: http://mirror.example stable InRelease: The following signatures couldn't be verified "
            "because the public key is not available: NO_PUBKEY A4B469963BF863CC",
            "package-signature",
        ),
        ("Failed to lock apt for exclusive operation: Failed to lock directory /var/lib/apt/lists/", "package-lock"),
        (
            "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)",
            "package-lock",
        ),
        ("OSError: [Errno 28] No space left on device", "disk-full"),
        ("E: You don't have enough free space in /var/cache/apt/archives/.", "disk-full"),
        ("Err:1 http://mirror.example Temporary failure resolving 'mirror.example'", "package-source-unreachable"),
        ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", "dpkg-broken"),
        ("E: Unable to correct problems, you have held broken packages.", "dpkg-broken"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "package-hash"),
        ("ERROR: No matching distribution found for torch==9.9", "package-missing"),
        ("No package matching 'chronyy' is available", "package-missing"),
        ("Missing sudo password", "sudo"),
        ("something that nobody has seen before", "task-failed"),
    ],
)
def test_known_words_get_their_code_and_all_get_three_parts(words, code):
    (error,) = diagnose.explain(failed(msg=words))

    assert error.code == code
    assert error.host == "node1"
    assert error.found.startswith("node1: host_base: install | Install the packages: ")
    assert error.needed
    assert error.next_step
    assert "{host}" not in error.needed + error.next_step


def test_a_roles_own_three_parts_are_taken_as_they_are():
    message = (
        "Found: root disk has 1 GB free.\nNeeded: 5 GB.\nNext: apt-get clean\n"
        "Found: no sudo.\nNeeded: sudo.\nNext: ask the provider"
    )

    errors = diagnose.explain(failed(msg=message))

    assert [(error.found, error.needed, error.next_step) for error in errors] == [
        ("root disk has 1 GB free.", "5 GB.", "apt-get clean"),
        ("no sudo.", "sudo.", "ask the provider"),
    ]
    assert {error.exit_code for error in errors} == {ExitCode.USAGE}


def test_the_words_of_a_tool_that_a_module_quotes_decide_the_code():
    message = (
        "Found: Could not get lock /var/lib/dpkg/lock: held by process 812.\n"
        "Needed: Nobody else.\nNext: Wait, then run again."
    )

    (error,) = diagnose.explain(failed(msg=message, exception="(traceback unavailable)"))

    assert (error.code, error.exit_code) == ("package-lock", ExitCode.UNFINISHED)
    assert error.next_step == "Wait, then run again."


def test_a_module_that_states_its_case_was_not_cut_off():
    message = "Found: pip: connection was closed.\nNeeded: An index.\nNext: Run again."

    assert not diagnose.looks_interrupted(failed(msg=message))
    assert diagnose.looks_interrupted(failed(msg="Shared connection to node1 closed."))


def test_only_the_failed_items_of_a_loop_speak():
    event = TaskEvent(
        host="node1",
        kind="failed",
        role="r",
        task="t",
        module="m",
        results=({"failed": False, "msg": "fine"}, {"failed": True, "msg": "broken"}),
    )

    assert diagnose.failure_words(event) == "broken"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (failed(msg="MODULE FAILURE: No start of json char found\nSee stdout/stderr"), True),
        (failed(msg="x", module_stderr="Connection to 10.0.0.1 closed by remote host."), True),
        (TaskEvent("h", "unreachable", "r", "t", "m", results=({"msg": "Failed to connect"},)), True),
        (failed(msg="No package matching 'x' is available"), False),
    ],
)
def test_a_cut_off_module_is_told_from_one_that_failed(event, expected):
    assert diagnose.looks_interrupted(event) is expected
