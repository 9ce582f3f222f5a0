import fcntl
import os
import subprocess
import sys
import time

import pytest
from ansible.module_utils import ironlease_apt_lock as apt_lock
from ansible.module_utils.ironlease_node import dpkg
from ansible.module_utils.ironlease_support import RefusalError


@pytest.fixture
def apt_packages(load_plugin):
    return load_plugin("modules/apt_packages")


def status(**states):
    return dpkg.parse_status(
        "\n".join(
            f"Package: {name}\nStatus: install {state}\nArchitecture: amd64\nVersion: 1\n"
            for name, state in {"dpkg": "ok installed", **states}.items()
        )
    )


def test_only_what_is_installed_whole_is_not_missing(apt_packages):
    database = status(a="ok installed", b="ok half-configured", c="ok config-files")

    assert apt_packages.missing_of(["a", "b", "c", "d"], database) == ["b", "c", "d"]


# `apt-get --quiet --yes update` of apt 2.6.2 on a Debian 12 lab host, 2026-11-30, shortened; the hosts' names are
# replaced. The first exits with 0, the second with 100.
UNREACHABLE = """\
Ign:1 http://127.0.0.1:9/debian stable InRelease
Get:2 http://mirror.example/debian bookworm InRelease [151 kB]
Ign:1 http://127.0.0.1:9/debian stable InRelease
Err:1 http://127.0.0.1:9/debian stable InRelease
  Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)
Fetched 241 kB in 3s (79.6 kB/s)
Reading package lists...
W: Failed to fetch http://127.0.0.1:9/debian/dists/stable/InRelease  Could not connect to 127.0.0.1:9 (127.0.0.1). - connect (111: Connection refused)
W: Some index files failed to download. They have been ignored, or old ones used instead.
"""  # noqa: E501 - as apt writes it
WRONG_KEY = """\
Get:1 http://mirror.example/debian bookworm InRelease [151 kB]
Err:1 http://mirror.example/debian bookworm InRelease
  The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 6ED0E7B82643E131
Reading package lists...
W: GPG error: http://mirror.example/debian bookworm InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 6ED0E7B82643E131
E: The repository 'http://mirror.example/debian bookworm InRelease' is not signed.
"""  # noqa: E501 - as apt writes it
# The same, with a source that is listed twice and a key in the old place; it exits with 0.
HARMLESS = """\
Get:1 http://mirror.example/debian bookworm InRelease [151 kB]
Fetched 241 kB in 1s (251 kB/s)
Reading package lists...
W: http://mirror.example/debian/dists/bookworm/InRelease: Key is stored in legacy trusted.gpg keyring (/etc/apt/trusted.gpg), see the DEPRECATION section in apt-key(8) for details.
W: Target Packages (main/binary-amd64/Packages) is configured multiple times in /etc/apt/sources.list.d/debian.sources:1 and /etc/apt/sources.list.d/twice.sources:1
W: Unable to read /etc/apt/sources.list.d/ - DirectoryExists (2: No such file or directory)
"""  # noqa: E501 - as apt writes it


@pytest.mark.parametrize(
    ("output", "beginnings"),
    [
        (UNREACHABLE, ["W: Failed to fetch", "W: Some index files"]),
        (WRONG_KEY, ["W: GPG error", "E: The repository"]),
        (HARMLESS, []),
        ("Hit:1 http://mirror.example stable InRelease\n", []),
    ],
    ids=["unreachable", "wrong-key", "harmless", "fine"],
)
def test_problems_with_sources_are_apts_own_lines(apt_packages, output, beginnings):
    problems = apt_packages.source_problems(output)

    assert len(problems) == len(beginnings)
    assert all(problem.startswith(beginning) for problem, beginning in zip(problems, beginnings, strict=True))


def test_a_whole_dpkg_needs_nothing(apt_packages):
    assert apt_packages.require_whole(status(a="ok config-files"), False, repair=False) is False


@pytest.mark.parametrize(("states", "interrupted"), [({"a": "ok half-configured"}, False), ({}, True)])
def test_dpkg_is_finished_where_that_is_allowed(apt_packages, states, interrupted):
    assert apt_packages.require_whole(status(**states), interrupted, repair=True) is True
    with pytest.raises(RefusalError, match="dpkg was interrupted") as refused:
        apt_packages.require_whole(status(**states), interrupted, repair=False)
    assert refused.value.next_step.startswith("dpkg --configure -a")


@pytest.mark.parametrize("state", ["ok half-installed", "reinstreq unpacked"])
def test_what_needs_a_reinstallation_is_never_repaired(apt_packages, state):
    with pytest.raises(RefusalError) as refused:
        apt_packages.require_whole(status(a=state, b="ok unpacked"), False, repair=True)
    assert "--reinstall a (" in refused.value.next_step


@pytest.fixture
def installer(apt_packages, tmp_path, monkeypatch):
    """Return a function that makes an Installer whose apt-get is a script."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(apt_packages, "wait_for_locks", lambda deadline: None)

    def make(script, lock_wait_seconds=20, timeout_seconds=20):
        command = tmp_path / "apt-get"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        return apt_packages.Installer(lock_wait_seconds, timeout_seconds)

    return make


def test_lists_that_could_not_be_fetched_stop_although_apt_ends_well(installer, tmp_path):
    (tmp_path / "output").write_text(UNREACHABLE)

    with pytest.raises(RefusalError, match=r"apt-get update failed: W: Failed to fetch http://127\.0\.0\.1:9"):
        installer(f"cat {tmp_path}/output").refresh()


def test_lists_with_a_harmless_warning_do_not_stop(installer, tmp_path):
    (tmp_path / "output").write_text(HARMLESS)

    installer(f"cat {tmp_path}/output").refresh()


def test_nothing_is_removed_and_nothing_recommended_is_added(installer, tmp_path):
    installer(f'echo "$@" > {tmp_path}/arguments').install(["a", "b"])

    arguments = (tmp_path / "arguments").read_text().split()
    assert {"--no-remove", "--no-install-recommends", "--yes"} <= set(arguments)
    assert arguments[-3:] == ["install", "a", "b"]


def test_a_failed_installation_is_told_in_apts_words(installer):
    with pytest.raises(RefusalError, match=r"apt-get install a failed: E: Unable to locate package a$"):
        installer("echo Reading; echo 'E: Unable to locate package a'; exit 100").install(["a"])


def test_a_race_for_the_lock_is_run_again(installer, tmp_path):
    once = f"[ -e {tmp_path}/again ] && exit 0; : > {tmp_path}/again; echo 'E: Could not get lock /x'; exit 100"

    installer(once).install(["a"])


def test_a_lost_race_at_the_end_of_the_wait_is_told(installer):
    with pytest.raises(RefusalError, match="Could not get lock /x"):
        installer("echo 'E: Could not get lock /x'; exit 100", lock_wait_seconds=0).install(["a"])


def test_apt_that_hangs_is_stopped(installer):
    with pytest.raises(RefusalError, match="did not end within 1 s: Waiting for headers"):
        installer("echo Waiting for headers; sleep 60", timeout_seconds=1).refresh()


def test_a_host_without_apt_is_told(apt_packages, monkeypatch, tmp_path):
    monkeypatch.setattr(apt_packages, "wait_for_locks", lambda deadline: None)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(RefusalError, match="apt-get: No such file") as refused:
        apt_packages.Installer(1, 1).refresh()
    assert "Debian" in refused.value.needed


HOLD = """
import fcntl, sys, time
handle = open(sys.argv[1], "w")
fcntl.lockf(handle, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.fixture
def hold(tmp_path):
    """Return a function that lets another process hold a lock for some seconds."""
    processes = []

    def start(seconds):
        argv = [sys.executable, "-c", HOLD, str(tmp_path / "lock"), str(seconds)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE)
        processes.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait(timeout=10)
        process.stdout.close()


def test_a_lock_nobody_holds_has_no_holder(tmp_path):
    (tmp_path / "lock").touch()

    assert apt_lock.holder(tmp_path / "lock") is None
    assert apt_lock.holder(tmp_path / "never-taken") is None


def test_a_lock_of_our_own_is_no_obstacle(tmp_path):
    with (tmp_path / "lock").open("w") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        assert apt_lock.holder(tmp_path / "lock") is None


def test_the_holder_is_named_when_the_wait_is_over(tmp_path, hold):
    process = hold(60)

    with pytest.raises(RefusalError, match=f"lock: held by process {process.pid} ") as refused:
        apt_lock.wait_for_locks(time.monotonic() + 0.1, (tmp_path / "lock",))
    assert "Could not get lock" in refused.value.found


def test_a_lock_that_is_given_back_in_time_is_waited_for(tmp_path, hold):
    hold(1.5)

    apt_lock.wait_for_locks(time.monotonic() + 30, (tmp_path / "none", tmp_path / "lock"))

    assert apt_lock.holder(tmp_path / "lock") is None
