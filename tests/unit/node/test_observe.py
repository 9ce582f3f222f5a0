from __future__ import annotations

import base64
import hashlib
import os
import sys
import time

import pytest

from ironlease_node import environment as node_environment
from ironlease_node import observe
from ironlease_node.host import Host
from ironlease_node.observe import units
from ironlease_node.refusal import Refusal


@pytest.fixture
def look(gpu_server, tools):
    """Observe one thing; return None when it is as wanted, else its entry."""

    def run(host=gpu_server, **thing):
        thing = {"role": "some_role", "task": "configure | Do it", **thing}
        answer = observe.observe({"schema": "ironlease.footprint/1", "things": [thing]}, host, tools)
        assert answer["total"] == 1
        assert answer["as_wanted"] == 1 - len(answer["differences"])
        return answer["differences"][0] if answer["differences"] else None

    return run


def test_package_as_wanted(look):
    assert look(kind="package", name="libc6", state="present", version=None) is None
    assert look(kind="package", name="libc6", state="present", version="2.35-0ubuntu3.8") is None
    assert look(kind="package", name="libc6", state="present", version="2.35-*") is None
    assert look(kind="package", name="libc6:i386", state="present") is None
    assert look(kind="package", name="old-tool", state="absent") is None
    assert look(kind="package", name="never-heard-of", state="absent") is None


@pytest.mark.parametrize(
    ("thing", "wanted", "found"),
    [
        ({"name": "libc6", "state": "present", "version": "2.36"}, {"version": "2.36"}, {"version": "2.35-0ubuntu3.8"}),
        ({"name": "never-heard-of", "state": "present"}, {"state": "installed"}, {"state": "absent"}),
        ({"name": "old-tool", "state": "present"}, {"state": "installed"}, {"state": "config-files"}),
        ({"name": "nvidia-dkms-580", "state": "present"}, {"state": "installed"}, {"state": "half-configured"}),
        ({"name": "nvidia-dkms-580", "state": "absent"}, {"state": "absent"}, {"state": "half-configured"}),
        ({"name": "lost-files", "state": "present"}, {"state": "installed"}, {"state": "reinst-required"}),
        ({"name": "libc6", "state": "absent"}, {"state": "absent"}, {"state": "installed"}),
    ],
)
def test_package_that_differs(look, thing, wanted, found):
    entry = look(kind="package", **thing)

    assert entry == {
        "index": 0,
        "role": "some_role",
        "task": "configure | Do it",
        "kind": "package",
        "target": thing["name"],
        "state": "differs",
        "wanted": wanted,
        "found": found,
    }


def test_latest_cannot_be_observed(look):
    entry = look(kind="package", name="libc6", state="latest")

    assert (entry["state"], entry["found"]) == ("unknown", None)
    assert "latest" in entry["reason"]


def test_selection(look):
    assert look(kind="selection", name="libc6", selection="hold") is None
    assert look(kind="selection", name="dpkg", selection="hold")["found"] == {"selection": "install"}
    assert look(kind="selection", name="never-heard-of", selection="hold")["found"] == {"selection": "absent"}


@pytest.fixture
def managed_file(plant_files, root):
    plant_files({"/etc/managed.conf": "content\n"})
    path = root / "etc/managed.conf"
    path.chmod(0o640)
    return path


def sha1(text):
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@pytest.fixture
def own_names(gpu_server, plant_files):
    """Whoever runs the test owns the files; in this host's files the owner has a name."""
    plant_files(
        {
            "/etc/passwd": f"owner:x:{os.geteuid()}:{os.getegid()}::/:/bin/sh\n",
            "/etc/group": f"owners:x:{os.getegid()}:\n",
        }
    )


@pytest.mark.usefixtures("own_names")
def test_file_as_wanted(look, managed_file):
    wanted = {"sha1": sha1("content\n"), "mode": "0640", "owner": "owner", "group": "owners"}

    assert look(kind="file", path="/etc/managed.conf", **wanted) is None
    assert look(kind="file", path="/etc/managed.conf", mode="640", sha1=None, owner=None, group=None) is None
    assert look(kind="file", path="/etc/managed.conf", owner=str(os.geteuid()), group=str(os.getegid())) is None


@pytest.mark.usefixtures("own_names")
@pytest.mark.parametrize(
    ("key", "wanted", "found"),
    [
        ("sha1", "0" * 40, sha1("content\n")),
        ("mode", "0644", "0640"),
        ("mode", "4640", "0640"),
        ("owner", "somebody", "owner"),
        ("group", "some", "owners"),
        ("owner", "424242", str(os.geteuid())),
    ],
)
def test_each_property_of_a_file_is_looked_at(look, managed_file, key, wanted, found):
    entry = look(kind="file", path="/etc/managed.conf", **{key: wanted})

    assert (entry["state"], entry["wanted"], entry["found"]) == ("differs", {key: wanted}, {key: found})


def test_owner_without_a_name_is_shown_as_a_number(look, managed_file, plant_files):
    plant_files({"/etc/passwd": "other:x:424242:1::/:/bin/sh\n"})

    entry = look(kind="file", path="/etc/managed.conf", owner="other")

    assert entry["found"] == {"owner": str(os.geteuid())}


def test_places_of_another_type(look, managed_file, root):
    (root / "etc/folder").mkdir()
    (root / "etc/link").symlink_to("managed.conf")
    (root / "etc/broken").symlink_to("nowhere")
    os.mkfifo(root / "etc/pipe")

    assert look(kind="file", path="/etc/link", sha1=sha1("content\n"))["found"] == {"type": "link"}
    assert look(kind="file", path="/etc/folder")["found"] == {"type": "directory"}
    assert look(kind="file", path="/etc/pipe")["found"] == {"type": "special"}
    assert look(kind="file", path="/etc/missing")["found"] == {"type": "absent"}
    assert look(kind="file", path="/etc/managed.conf/below")["found"] == {"type": "absent"}
    assert look(kind="directory", path="/etc/managed.conf")["found"] == {"type": "file"}
    assert look(kind="absent", path="/etc/broken")["found"] == {"type": "link"}
    assert look(kind="absent", path="/etc/missing") is None


def test_directory_mode(look, root):
    (root / "etc/folder").mkdir(mode=0o700)

    assert look(kind="directory", path="/etc/folder", mode="0700") is None
    assert look(kind="directory", path="/etc/folder", mode="0755")["found"] == {"mode": "0700"}


def test_link_text(look, root):
    (root / "etc/link").symlink_to("../usr/lib/target")

    assert look(kind="link", path="/etc/link", target="../usr/lib/target") is None
    assert look(kind="link", path="/etc/link", target="/usr/lib/target")["found"] == {"target": "../usr/lib/target"}


def test_mode_that_is_no_number_is_unknown(look, managed_file):
    assert look(kind="file", path="/etc/managed.conf", mode="u=rw")["state"] == "unknown"


def test_user(look):
    wanted = {"uid": 1000, "group": "ml", "home": "/home/ml", "shell": "/bin/bash", "create_home": True}

    assert look(kind="user", name="ml", **wanted) is None
    assert look(kind="user", name="ml", groups=["render", "sudo"]) is None
    assert look(kind="user", name="ml", groups="sudo, render") is None
    assert look(kind="user", name="ml", groups=["sudo"], append=True) is None
    assert look(kind="user", name="gone", state="absent") is None


@pytest.mark.parametrize(
    ("thing", "found"),
    [
        ({"name": "gone"}, {"state": "absent"}),
        ({"name": "ml", "state": "absent"}, {"state": "present"}),
        ({"name": "ml", "uid": 1001}, {"uid": "1000"}),
        ({"name": "ml", "shell": "/bin/sh"}, {"shell": "/bin/bash"}),
        ({"name": "ml", "home": "/srv/ml"}, {"home": "/home/ml"}),
        ({"name": "ml", "group": "sudo"}, {"group": "ml"}),
        ({"name": "ml", "group": "27"}, {"group": "1000"}),
        ({"name": "ml", "groups": ["sudo"]}, {"groups": ["render", "sudo"]}),
        ({"name": "ml", "groups": ["docker"], "append": True}, {"groups": ["render", "sudo"]}),
        ({"name": "nobody", "create_home": True}, {"create_home": False}),
    ],
)
def test_user_that_differs(look, thing, found):
    assert look(kind="user", **thing)["found"] == found


def test_group(look):
    assert look(kind="group", name="render", gid=110) is None
    assert look(kind="group", name="render", gid=111)["found"] == {"gid": "110"}
    assert look(kind="group", name="gone")["found"] == {"state": "absent"}
    assert look(kind="group", name="gone", state="absent") is None


def test_sysctl(look):
    assert look(kind="sysctl", name="vm.swappiness", value="60") is None
    assert look(kind="sysctl", name="vm.swappiness", value="10")["found"] == {"value": "60"}
    assert look(kind="sysctl", name="../../etc/passwd", value="x")["state"] == "unknown"


UNITS = ["a.service", "b.service", "c.service", "d.timer"]


def units_footprint(**wanted):
    return {
        "schema": "ironlease.footprint/1",
        "things": [{"kind": "unit", "name": name, **wanted.get(name[0], {})} for name in UNITS],
    }


def test_all_units_are_asked_for_in_one_call(gpu_server, tools):
    answer = observe.observe(
        units_footprint(
            a={"enabled": True, "active": True, "masked": False},
            b={"enabled": False, "active": False, "masked": True},
            c={"enabled": False, "active": False},
            d={"enabled": True, "active": False},
        ),
        gpu_server,
        tools,
    )

    assert answer["differences"] == []
    assert answer["as_wanted"] == 4
    assert tools.asked == [
        ["systemctl", "show", "--property=LoadState,ActiveState,UnitFileState", "--", *UNITS],
    ]


def test_units_that_differ(gpu_server, tools):
    answer = observe.observe(
        units_footprint(
            a={"masked": True}, b={"masked": False}, c={"enabled": True, "active": True}, d={"active": True}
        ),
        gpu_server,
        tools,
    )

    assert [entry["found"] for entry in answer["differences"]] == [
        {"masked": False},
        {"masked": True},
        {"enabled": False, "active": False},
        {"active": False},
    ]


@pytest.mark.parametrize("broken", ["fails", "hangs", "half"])
def test_units_are_unknown_when_systemd_does_not_answer(gpu_server, tools, broken):
    if broken == "fails":
        tools.fails("systemctl", 1, "Failed to connect to bus: Host is down")
    elif broken == "hangs":
        tools.hangs("systemctl")
    else:
        tools.answers["systemctl"] = tools.answers["systemctl"].rpartition("\n\n")[0]

    answer = observe.observe(units_footprint(a={"active": True}), gpu_server, tools)

    assert [entry["state"] for entry in answer["differences"]] == ["unknown"] * 4
    assert answer["as_wanted"] == 0
    # A systemd that hangs is waited for once, not once for each unit.
    assert len(tools.asked) == 1


def test_unit_names_may_leave_out_service():
    assert units.unit_name("ssh") == "ssh.service"
    assert units.unit_name("ssh.socket") == "ssh.socket"
    assert units.unit_name("getty@tty1") == "getty@tty1.service"


def test_unknown_is_never_as_wanted(look, gpu_server, root):
    assert look(kind="firewall", name="x")["reason"] == "nothing observes the kind 'firewall'"
    assert look(name="x")["state"] == "unknown"
    assert look(kind="file")["state"] == "unknown"
    assert look(kind="python_environment", path="/opt/x")["state"] == "unknown"
    assert look(kind="package", name="libc6", state="present", host=Host(root / "nowhere"))["state"] == "unknown"


def test_a_file_that_may_not_be_read_is_unknown(look, managed_file, monkeypatch):
    def refuse(path, *arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "lstat", refuse)

    entry = look(kind="file", path="/etc/managed.conf", mode="0640")
    assert entry["state"] == "unknown"
    assert entry["reason"] == "/etc/managed.conf: Permission denied"


def test_entries_point_at_their_things(gpu_server, tools):
    things = [
        {"kind": "absent", "path": "/etc/nowhere"},
        {"kind": "absent", "path": "/etc/passwd", "role": "r", "task": "t"},
        {"kind": "group", "name": "render"},
    ]

    answer = observe.observe({"schema": "ironlease.footprint/1", "things": things, "key": "more"}, gpu_server, tools)

    assert answer["total"] == 3
    assert answer["as_wanted"] == 2
    assert [(entry["index"], entry["target"]) for entry in answer["differences"]] == [(1, "/etc/passwd")]


@pytest.mark.parametrize(
    "footprint",
    [
        {},
        {"schema": "ironlease.footprint/2", "things": []},
        {"schema": "ironlease.footprint/1", "things": {}},
        {"schema": "ironlease.footprint/1", "things": ["x"]},
    ],
)
def test_not_a_footprint(footprint, gpu_server, tools):
    with pytest.raises(Refusal) as caught:
        observe.observe(footprint, gpu_server, tools)

    assert caught.value.code == "bad-input"


@pytest.fixture
def environment(tmp_path):
    """A small environment that this interpreter really starts in, with one distribution."""
    import venv

    path = tmp_path / "env"
    venv.create(path, symlinks=True, with_pip=False)
    site = path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    info = site / "Some_Thing-1.0+cpu.dist-info"
    info.mkdir()
    (site / "some_thing.py").write_text("x = 1\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Some_Thing\nVersion: 1.0+cpu\n")
    (info / "RECORD").write_text("some_thing.py,sha256=x,6\nSome_Thing-1.0+cpu.dist-info/RECORD,,\n")
    return path, site


def see(path, **pins):
    things = [
        {
            "kind": "python_environment",
            "path": str(path),
            "packages": [{"name": name.replace("_", "-"), "version": version} for name, version in pins.items()],
        }
    ]
    answer = observe.observe({"schema": "ironlease.footprint/1", "things": things}, Host(), None)
    return answer["differences"][0] if answer["differences"] else None


def test_environment_as_wanted(environment):
    path, _ = environment

    assert see(path, some_thing="1.0") is None
    assert see(path, some_thing="1.0+cpu") is None


def test_file_that_was_changed_in_its_own_size_is_read(environment, monkeypatch):
    path, site = environment
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"x = 1\n").digest()).rstrip(b"=").decode()
    record = site / "Some_Thing-1.0+cpu.dist-info" / "RECORD"
    record.write_text(f"some_thing.py,sha256={digest},6\nSome_Thing-1.0+cpu.dist-info/RECORD,,\n")
    monkeypatch.setattr(node_environment, "SETTLED_SECONDS", 0.0)
    time.sleep(0.05)

    (site / "some_thing.py").write_text("x = 2\n")
    os.utime(site / "some_thing.py", (0, 0))
    assert see(path, some_thing="1.0")["found"]["some-thing"].startswith("files: 1 of 2 files")

    (site / "some_thing.py").write_text("x = 1\n")
    assert see(path, some_thing="1.0") is None


def test_environment_that_differs(environment):
    path, site = environment
    other = see(path, some_thing="2.0", missing="3")
    assert other["state"] == "differs"
    assert other["wanted"] == {"some-thing": "2.0", "missing": "3"}
    assert other["found"]["some-thing"].startswith("version: 1.0+cpu")
    assert other["found"]["missing"].startswith("missing: ")

    (site / "some_thing.py").write_text("x = 10\n")
    assert see(path, some_thing="1.0")["found"]["some-thing"].startswith("files: ")

    (path / "bin" / "python").unlink()
    assert see(path, some_thing="1.0")["found"]["interpreter"].startswith("interpreter: ")
    assert see(path / "nowhere", some_thing="1.0")["found"]["interpreter"].startswith("absent: ")
