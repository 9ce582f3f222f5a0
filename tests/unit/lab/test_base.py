"""The recipe of the base, and the cache of bases."""

import subprocess
from dataclasses import replace

import pytest

from ironlease.lab import base
from ironlease.lab.apt_config import AptInheritance
from ironlease.lab.base import BaseRecipe, bootstrap_command, recipe_for, remove_unused_bases
from ironlease.lab.errors import LabError, LabUnavailableError
from ironlease.lab.inheritance import Inheritance

DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm", "PRETTY_NAME": "Debian GNU/Linux 12 (bookworm)"}
APT = AptInheritance(
    files={"/etc/apt/sources.list": b"deb http://mirror/debian bookworm main\n"}, options=[], folders=set()
)
INHERITANCE = Inheritance(
    apt=APT,
    certificates=[],
    host_files={"/etc/pip.conf": "[global]\n"},
    bind_read_only=[],
    web_ports=frozenset({80, 443}),
    notes=[],
)
RECIPE = BaseRecipe("debian", "bookworm", "x86_64", INHERITANCE)


@pytest.fixture
def bases(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "BASES", tmp_path / "bases")
    monkeypatch.setattr(base, "_NEEDED_BYTES", 0)
    return tmp_path / "bases"


class PlainGroup:
    """Stands in for a control group, which only root can make: its processes run as they are."""

    def create(self):
        pass

    def joining(self, argv):
        return list(argv)

    def kill(self):
        pass

    def remove(self):
        pass


@pytest.fixture
def group():
    return PlainGroup()


def test_the_same_computer_has_the_same_base():
    assert recipe_for(INHERITANCE, DEBIAN).digest == recipe_for(replace(INHERITANCE), DEBIAN).digest


@pytest.mark.parametrize(
    "other",
    [
        replace(RECIPE, release="trixie"),
        replace(RECIPE, architecture="aarch64"),
        replace(RECIPE, inheritance=replace(INHERITANCE, certificates=["x"])),
        replace(RECIPE, inheritance=replace(INHERITANCE, apt=replace(APT, options=['Acquire::Retries "3";']))),
        replace(RECIPE, inheritance=replace(INHERITANCE, apt=replace(APT, files={"/etc/apt/sources.list": b"deb"}))),
    ],
)
def test_whatever_is_built_in_makes_another_base(other):
    assert other.digest != RECIPE.digest


def test_what_a_host_gets_at_its_start_makes_no_other_base():
    pip = replace(RECIPE, inheritance=replace(INHERITANCE, host_files={}, bind_read_only=["/srv/wheels"]))

    assert pip.digest == RECIPE.digest


@pytest.mark.parametrize(
    "os_release", [{"ID": "fedora", "VERSION_CODENAME": "x"}, {"ID": "debian"}, {}, {"ID": "arch", "ID_LIKE": "x"}]
)
def test_a_computer_that_is_not_of_the_debian_family_is_refused(os_release):
    with pytest.raises(LabUnavailableError) as refused:
        recipe_for(INHERITANCE, os_release)

    assert refused.value.code == "lab-distribution"


def test_a_relative_of_debian_is_taken():
    ubuntu = {"ID": "ubuntu", "ID_LIKE": "debian", "VERSION_CODENAME": "noble"}

    assert recipe_for(INHERITANCE, ubuntu).release == "noble"


def test_local_sources_are_shown_to_the_build(tmp_path):
    local = replace(RECIPE, inheritance=replace(INHERITANCE, apt=replace(APT, folders={"/srv/mirror"})))

    assert not any("hook" in word for word in bootstrap_command(RECIPE, tmp_path, [], "/options"))
    assert any("file-mirror-automount" in word for word in bootstrap_command(local, tmp_path, [], "/options"))


def test_a_failed_build_leaves_no_base_and_shows_the_end_of_its_log(bases, group, monkeypatch):
    monkeypatch.setattr(
        base, "bootstrap_command", lambda recipe, folder, *_: ["sh", "-c", f"mkdir {folder}; echo no route; exit 7"]
    )
    with pytest.raises(LabError) as failed:
        base.ensure_base(RECIPE, group, "test", lambda _: None)

    assert "exit code 7" in failed.value.found
    assert "no route" in failed.value.found
    assert list(bases.iterdir()) == []


def test_a_base_appears_only_when_it_is_finished(bases, group, monkeypatch):
    seen = []
    monkeypatch.setattr(base, "_bootstrap", lambda recipe, work, group: (work / "root").mkdir())
    monkeypatch.setattr(base, "_finish", lambda recipe, folder: seen.append(RECIPE.folder.exists()))

    folder = base.ensure_base(RECIPE, group, "test", lambda _: None)

    assert seen == [False]
    assert folder.is_dir()
    assert list(bases.iterdir()) == [folder]


def test_an_unfinished_build_of_ours_is_discarded(bases):
    (bases / ".building-mine/root").mkdir(parents=True)
    (bases / ".building-other/root").mkdir(parents=True)

    base.discard_unfinished("mine")

    assert [path.name for path in bases.iterdir()] == [".building-other"]


def test_bases_in_use_and_builds_of_others_are_not_purged(bases):
    for name in ("used", "unused", ".building-other"):
        (bases / name).mkdir(parents=True)

    remove_unused_bases({"used"}, lambda _: None)

    assert sorted(path.name for path in bases.iterdir()) == [".building-other", "used"]


def test_too_little_room_is_said_before_anything_is_built(bases, group, monkeypatch):
    monkeypatch.setattr(base, "_NEEDED_BYTES", 2**62)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("something was started"))

    with pytest.raises(LabUnavailableError) as refused:
        base.ensure_base(RECIPE, group, "test", lambda _: None)

    assert refused.value.code == "lab-disk-full"
