"""What the ProxyCommand says when there is no connection."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ironlease.lab import connect


def run(*arguments):
    # As the inventory runs it: isolated, without site packages, so that only the standard library may be imported.
    return subprocess.run(
        [sys.executable, "-IS", connect.__file__, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_a_lab_that_is_not_running_is_named_with_the_next_step(tmp_path):
    done = run(str(tmp_path / "none"), "10.77.0.11", "22")

    assert done.returncode == 1
    assert "invoke lab.up" in done.stderr or "root" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["a", "b", "c"], ["a", "b", "-1"]])
def test_wrong_usage(arguments):
    done = run(*arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("usage:")


def test_refusals_tell_their_causes_apart(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    gone = connect.refusal("/run/x", OSError(2, "No such file", "/run/x"))
    silent = connect.refusal("/run/x", OSError(113, "No route to host"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    user = connect.refusal("/run/x", OSError(2, "No such file", "/run/x"))

    assert "not running" in gone
    assert "No route to host" in silent
    assert "sudo" in user


def test_it_is_where_the_inventory_says():
    assert Path(connect.__file__).parts[-4:] == ("src", "ironlease", "lab", "connect.py")
