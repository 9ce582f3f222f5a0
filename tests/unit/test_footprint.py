import json
from dataclasses import replace

import pytest

from ironlease import footprint
from ironlease.footprint import Recorder
from ironlease.paths import Project
from ironlease.runner import TaskEvent


def event(module, *results, kind="ok", handler=False):
    return TaskEvent(
        host="h",
        kind=kind,
        role="role",
        task="role | Do",
        module=f"ansible.builtin.{module}",
        handler=handler,
        results=results,
    )


def result(arguments, **values):
    return {"invocation": {"module_args": arguments}, **values}


def recorded(*events):
    recorder = Recorder("h")
    for each in events:
        recorder.record(each)
    return recorder


OWNED = {"mode": "0644", "owner": "root", "group": "root"}


@pytest.mark.parametrize(
    ("module", "given", "things"),
    [
        (
            "apt",
            result({"package": ["chrony", "make=4.3-4"], "state": "present"}),
            [
                {"kind": "package", "name": "chrony", "version": None, "state": "present"},
                {"kind": "package", "name": "make", "version": "4.3-4", "state": "present"},
            ],
        ),
        ("apt", result({"update_cache": True}), []),
        (
            "apt_packages",
            result({"packages": ["chrony"]}),
            [{"kind": "package", "name": "chrony", "version": None, "state": "present"}],
        ),
        (
            "dpkg_selections",
            result({"name": "chrony", "selection": "hold"}),
            [{"kind": "selection", "name": "chrony", "selection": "hold"}],
        ),
        (
            "template",
            result({}, dest="/etc/a.conf", checksum="abc", **OWNED),
            [{"kind": "file", "path": "/etc/a.conf", "sha1": "abc", **OWNED}],
        ),
        (
            "file",
            result({"state": "directory", "path": "/opt/x"}, path="/opt/x", **OWNED),
            [{"kind": "directory", "path": "/opt/x", **OWNED}],
        ),
        (
            "file",
            result({"state": "link", "src": "/opt/x"}, dest="/usr/local/bin/x"),
            [{"kind": "link", "path": "/usr/local/bin/x", "target": "/opt/x"}],
        ),
        ("file", result({"state": "absent", "path": "/x"}, path="/x"), [{"kind": "absent", "path": "/x"}]),
        (
            "user",
            result({"name": "train", "shell": "/bin/bash", "uid": None, "system": True}),
            [{"kind": "user", "name": "train", "shell": "/bin/bash", "system": True}],
        ),
        (
            "systemd_service",
            result({"name": "chrony", "enabled": True, "state": "started", "masked": None}),
            [{"kind": "unit", "name": "chrony", "enabled": True, "masked": None, "active": True}],
        ),
        ("systemd_service", result({"name": None, "daemon_reload": True}), []),
        (
            "kernel_parameters",
            result({"values": {"vm.swappiness": 1}}, path="/etc/sysctl.d/x.conf", checksum="abc", **OWNED),
            [
                {"kind": "sysctl", "name": "vm.swappiness", "value": "1"},
                {"kind": "file", "path": "/etc/sysctl.d/x.conf", "sha1": "abc", **OWNED},
            ],
        ),
        (
            "shared_memory",
            result({"size": "1G"}, size_bytes=1 << 30),
            [{"kind": "mount_size", "path": "/dev/shm", "size_bytes": 1 << 30}],  # noqa: S108 - the mount point
        ),
        (
            "python_environment",
            result(
                {
                    "path": "/opt/e",
                    "python": "/usr/bin/python3",
                    "packages": [{"name": "torch", "version": "2", "sha256": ["x"]}],
                }
            ),
            [
                {
                    "kind": "python_environment",
                    "path": "/opt/e",
                    "packages": [{"name": "torch", "version": "2"}],
                    "python": "/usr/bin/python3",
                }
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_task_manages_is_recorded(module, given, things):
    recorder = recorded(event(module, given))

    assert recorder.incomplete == []
    assert recorder.things == [{**thing, "role": "role", "task": "role | Do"} for thing in things]


@pytest.mark.parametrize(
    ("module", "given"),
    [
        ("command", result({"cmd": "true"})),
        ("apt", result({"package": ["x"], "state": "latest"})),
        ("apt", result({"package": ["lib*"], "state": "present"})),
        ("apt", result({"deb": "/x.deb"})),
        ("file", result({"state": "touch", "path": "/x"}, path="/x")),
        ("file", result({"state": "directory", "path": "/x", "recurse": True}, path="/x")),
        ("copy", result({}, dest="/x")),
        ("user", result({"name": "x", "state": "absent"})),
        ("systemd_service", result({"name": "x", "state": "restarted"})),
        ("systemd_service", result({"name": "x", "enabled": True, "scope": "user"})),
        ("apt", result({"upgrade": "dist"})),
        ("apt", result({"autoremove": True})),
        ("user", result({"name": "x", "password": "!"})),
        ("copy", result({"setype": "etc_t"}, dest="/x", checksum="aa")),
        ("apt", {"censored": "no_log", "changed": True}),
        ("apt_packages", {"censored": "no_log", "changed": True}),
        ("systemd_service", {"censored": "no_log", "changed": True}),
    ],
)
def test_what_nobody_can_observe_makes_the_footprint_incomplete(module, given):
    recorder = recorded(event(module, given))

    assert len(recorder.incomplete) == 1
    assert recorder.document("key")["complete"] is False


def test_a_failure_that_was_passed_over_makes_the_footprint_incomplete():
    task = replace(event("file", result({"state": "absent", "path": "/x"}), kind="failed"), ignored=True)

    assert recorded(task).document("key")["complete"] is False


def test_each_item_of_a_loop_is_recorded_and_a_skipped_one_is_not():
    items = [
        result({"name": "a", "selection": "hold"}),
        {"skipped": True},
        result({"name": "b", "selection": "hold"}),
    ]

    assert [thing["name"] for thing in recorded(event("dpkg_selections", *items)).things] == ["a", "b"]


def test_handlers_started_and_skipped_tasks_add_nothing():
    restart = result({"name": "x", "state": "restarted"})

    recorder = recorded(
        event("systemd_service", restart, handler=True),
        event("command", {}, kind="skipped"),
        event("command", kind="started"),
        event("assert", {}),
    )

    assert (recorder.things, recorder.incomplete) == ([], [])


@pytest.fixture
def project(tmp_path):
    for name in ("roles", "playbooks", "plugins"):
        (tmp_path / name).mkdir()
    (tmp_path / "roles" / "main.yml").write_text("a")
    (tmp_path / "requirements.lock").write_text("")
    return Project(tmp_path)


def test_the_key_follows_plan_and_roles(project):
    key = footprint.inputs_key(project, {"a": 1})

    assert key == footprint.inputs_key(project, {"a": 1})
    assert key != footprint.inputs_key(project, {"a": 2})
    (project.root / "roles" / "main.yml").write_text("b")
    assert key != footprint.inputs_key(project, {"a": 1})


def kept(project, **changes):
    recorder = recorded(event("dpkg_selections", result({"name": "a", "selection": "hold"})))
    path = footprint.path_of(project, "h")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**recorder.document("key"), **changes}))


def test_a_complete_footprint_of_the_same_key_is_found(project):
    kept(project)

    assert footprint.load(project, "h", "key")["things"]


@pytest.mark.parametrize(
    "changes",
    [{"key": "other"}, {"complete": False}, {"things": []}, {"schema": "ironlease.footprint/0"}],
    ids=lambda changes: next(iter(changes)),
)
def test_any_other_footprint_means_that_the_roles_run(project, changes):
    kept(project, **changes)

    assert footprint.load(project, "h", "key") is None


@pytest.mark.parametrize("content", [None, "", "{"])
def test_a_missing_or_broken_footprint_means_that_the_roles_run(project, content):
    path = footprint.path_of(project, "h")
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_text(content)

    assert footprint.load(project, "h", "key") is None
