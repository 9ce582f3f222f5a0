"""Missing system tools: found, asked for, installed, or refused; apt-get is a command that records its arguments."""

import io
import os
import shutil
from pathlib import Path

import pytest

from ironlease import system_packages
from ironlease.console import Console
from ironlease.system_packages import InstallFailedError, MissingToolsError, Tools, ensure

APT_GET = """\
#!/bin/sh
echo "$DEBIAN_FRONTEND apt-get $*" >>"{folder}/log"
case $* in
*update*) touch "{folder}/has-lists" ;;
*install*)
    [ -e "{folder}/has-lists" ] || {{ echo "E: Unable to locate package"; exit 100; }}
    [ -e "{folder}/is-broken" ] && {{ echo "E: disk full"; exit 100; }}
    [ -e "{folder}/is-odd" ] || {{ printf '#!/bin/sh\\n' >"{folder}/frobnicate"; chmod +x "{folder}/frobnicate"; }} ;;
esac
"""


class Computer:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said = io.StringIO()
        self.console = Console(stdout=io.StringIO(), stderr=self.said)

    def add(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text.format(folder=self.folder))
        (self.folder / name).chmod(0o755)

    def has(self, mark: str) -> None:
        (self.folder / mark).touch()

    @property
    def log(self) -> list[str]:
        log = self.folder / "log"
        return log.read_text().splitlines() if log.exists() else []

    def ensure(self) -> None:
        ensure(self.console, ["frobs"], task="provision")


@pytest.fixture
def computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Computer:
    for tool in ("chmod", "env", "sh", "timeout", "touch", "true"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(system_packages, "_MORE_PATH", ())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    frobs = Tools("to frobnicate", {"frobnicate": "frob-utils", "sh": "dash"})
    monkeypatch.setitem(system_packages._GROUPS, "frobs", lambda: frobs)
    made = Computer(tmp_path)
    made.add("apt-get", APT_GET)
    return made


def test_what_is_there_is_not_installed(computer: Computer) -> None:
    computer.add("frobnicate", "#!/bin/sh\n")
    computer.ensure()

    assert (computer.log, computer.said.getvalue()) == ([], "")


def test_what_is_missing_is_installed_after_saying_what_and_why(computer: Computer) -> None:
    computer.has("has-lists")
    computer.ensure()

    (line,) = computer.log
    assert line.startswith("noninteractive apt-get -q -y -o DPkg::Lock::Timeout=")
    assert line.endswith("install --no-install-recommends frob-utils")
    said = computer.said.getvalue()
    assert "frob-utils" in said
    assert "provision needs them to frobnicate" in said


def test_a_fresh_machine_gets_its_package_lists_first(computer: Computer) -> None:
    computer.ensure()

    assert [line.split()[-1] for line in computer.log] == ["frob-utils", "update", "frob-utils"]


def test_a_failure_is_told_in_apts_words(computer: Computer) -> None:
    computer.has("is-broken")
    with pytest.raises(InstallFailedError, match="disk full") as failed:
        computer.ensure()

    assert failed.value.next_step == "sudo apt-get install frob-utils"


def test_a_package_without_the_tool_is_no_success(computer: Computer) -> None:
    computer.has("is-odd")
    with pytest.raises(InstallFailedError, match="frobnicate is still not there"):
        computer.ensure()


def test_without_apt_the_packages_are_named(computer: Computer) -> None:
    (computer.folder / "apt-get").unlink()
    with pytest.raises(MissingToolsError, match="frobnicate") as refused:
        computer.ensure()

    assert "frob-utils: provision needs them to frobnicate" in refused.value.needed


def test_without_root_and_sudo_nothing_is_tried(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MissingToolsError):
        computer.ensure()

    assert computer.log == []


def test_sudo_is_not_made_to_ask_where_nobody_answers(computer: Computer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    computer.add("sudo", '#!/bin/sh\necho "sudo $*" >>"{folder}/log"\n[ "$1" = -n ] || exit 1\nshift\nexec "$@"\n')
    computer.has("has-lists")
    computer.ensure()

    assert computer.log[0] == "sudo -n true"
    assert computer.log[1].startswith("sudo -n env DEBIAN_FRONTEND=noninteractive timeout ")


@pytest.mark.parametrize(("agrees", "installed"), [(True, True), (False, False)])
def test_a_person_is_asked_first(
    computer: Computer, monkeypatch: pytest.MonkeyPatch, agrees: bool, installed: bool
) -> None:
    questions: list[str] = []

    def confirm(self: Console, question: str, *, default: bool = False) -> bool:
        questions.append(question)
        return agrees

    monkeypatch.setattr(Console, "interactive", property(lambda self: True))
    monkeypatch.setattr(Console, "confirm", confirm)
    computer.has("has-lists")
    if installed:
        computer.ensure()
    else:
        with pytest.raises(MissingToolsError):
            computer.ensure()

    assert "Install the system packages frob-utils" in questions[0]
    assert bool(computer.log) is installed


@pytest.mark.parametrize("name", list(system_packages._GROUPS))
def test_every_group_names_its_purpose_and_packages(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    tools = system_packages._GROUPS[name]()

    assert tools.purpose.startswith("to ")
    assert tools.packages
