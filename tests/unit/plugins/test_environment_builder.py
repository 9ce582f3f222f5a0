"""Real environments from real, tiny wheels that the tests make; no network."""

import fcntl
import hashlib
import os
import subprocess
import sys
import time
import zipfile
from functools import partial
from pathlib import Path

import pytest
from ansible.module_utils.ironlease_environment_builder import Builder, Pin, pins_of, readable
from ansible.module_utils.ironlease_node.environment import observe_environment
from ansible.module_utils.ironlease_support import RefusalError

PYTHON = Path(sys.executable).resolve()


def wheel(folder, name, version, content="VALUE = 1\n"):
    """Write a wheel with one module and one command, and return its pin."""
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    entries = {
        f"{name}.py": content + "def main():\n    print(VALUE)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
    }
    entries[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*entries, f"{info}/RECORD"))
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for entry, text in entries.items():
            archive.writestr(entry, text)
    return Pin(name, version, (hashlib.sha256(path.read_bytes()).hexdigest(),))


def index(folder, *pins):
    """Make a package index of the wheels in ``folder`` and return its URL."""
    for pin in pins:
        page = folder / "simple" / pin.name
        page.mkdir(parents=True)
        file = folder / f"{pin.name}-{pin.version}-py3-none-any.whl"
        link = f"{file.as_uri()}#sha256={pin.sha256[0]}"
        (page / "index.html").write_text(f'<a href="{link}">{file.name}</a>')
    return (folder / "simple").as_uri()


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """The folder that the host's own pip configuration points to, and no index at all."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty-index").as_uri())
    return tmp_path / "wheels"


@pytest.fixture
def environment(tmp_path):
    return tmp_path / "env"


@pytest.fixture
def mend(environment, tmp_path):
    """Return a function that mends the environment, and afterwards says how it still differs."""

    def run(*pins, index_url="", timeout_seconds=120):
        observe = partial(observe_environment, environment, {pin.name: pin.version for pin in pins}, PYTHON)
        builder = Builder(environment, PYTHON, index_url, timeout_seconds, tmp_path)
        with builder.alone():
            builder.mend(list(pins), observe)
        return observe()

    return run


def test_an_environment_is_built_and_its_commands_work(mend, environment, wheels):
    one, two = wheel(wheels, "one", "1.0"), wheel(wheels, "two", "2.0+local")

    assert mend(one, two) == []
    assert subprocess.check_output([environment / "bin" / "one"], timeout=30) == b"1\n"
    assert list(environment.glob("lib/python3*/site-packages/__pycache__/two.*.pyc"))


def test_another_version_replaces_the_first_and_leaves_the_rest(mend, environment, wheels):
    one, two = wheel(wheels, "one", "1.0"), wheel(wheels, "two", "2.0")
    mend(one, two)
    (site_packages,) = environment.glob("lib/python3*/site-packages")
    (site_packages / "~ne-1.0.dist-info").mkdir()
    untouched = (site_packages / "two.py").stat()

    newer = wheel(wheels, "one", "1.1", "VALUE = 11\n")

    assert mend(newer, two) == []
    assert subprocess.check_output([environment / "bin" / "one"], timeout=30) == b"11\n"
    assert (site_packages / "two.py").stat() == untouched
    # What pip moves aside while it works is gone when it was cut off, too.
    assert list(site_packages.glob("~*")) == []


def test_a_venv_that_stopped_before_pip_is_completed(mend, environment, wheels):
    one = wheel(wheels, "one", "1.0")
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", environment], check=True, timeout=60)

    assert mend(one) == []


def test_the_index_is_asked_only_for_what_the_host_does_not_find(mend, wheels, tmp_path):
    one = wheel(wheels, "one", "1.0")
    elsewhere = wheel(tmp_path / "elsewhere", "two", "2.0")
    url = index(tmp_path / "elsewhere", elsewhere)

    assert mend(one, index_url="http://127.0.0.1:9/never-asked") == []
    with pytest.raises(RefusalError, match=r"No matching distribution found for two==2\.0") as refused:
        mend(one, elsewhere)
    assert "two==2.0" in refused.value.needed
    assert mend(one, elsewhere, index_url=url) == []


def test_a_mirror_with_another_content_stops_although_an_index_has_the_right_one(mend, environment, wheels, tmp_path):
    wheel(wheels, "one", "1.0", "VALUE = 'not what was pinned'\n")
    right = wheel(tmp_path / "elsewhere", "one", "1.0")
    url = index(tmp_path / "elsewhere", right)

    with pytest.raises(RefusalError, match="DO NOT MATCH THE HASHES") as refused:
        mend(right, index_url=url)

    assert f"Expected sha256 {right.sha256[0]}" in refused.value.found
    assert not list(environment.glob("lib/python3*/site-packages/one.py"))


def test_a_hosts_wish_to_install_elsewhere_is_overruled(mend, wheels, monkeypatch):
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")

    assert mend(wheel(wheels, "one", "1.0")) == []


def test_a_build_that_hangs_is_stopped(environment, tmp_path):
    slow = tmp_path / "slow-python"
    slow.write_text("#!/bin/sh\necho looking\nexec sleep 60\n")
    slow.chmod(0o755)

    with pytest.raises(RefusalError, match="did not end within 1 s: looking"):
        Builder(environment, slow, "", 1, tmp_path).mend([], partial(observe_environment, environment, {}))


def test_somebody_elses_folder_is_refused(mend, environment, wheels):
    environment.mkdir()
    (environment / "thesis.tex").touch()

    with pytest.raises(RefusalError, match=r"is not a Python environment; it holds thesis\.tex"):
        mend(wheel(wheels, "one", "1.0"))
    assert [path.name for path in environment.iterdir()] == ["thesis.tex"]


def test_two_builds_do_not_meet(mend, environment, wheels):
    environment.mkdir()
    descriptor = os.open(environment, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        started = time.monotonic()
        with pytest.raises(RefusalError, match="Another process is building"):
            mend(wheel(wheels, "one", "1.0"), timeout_seconds=1)
        assert time.monotonic() - started < 20
    finally:
        os.close(descriptor)


def test_a_python_that_is_none_is_told(environment, tmp_path):
    python = tmp_path / "no-python"
    builder = Builder(environment, python, "", 60, tmp_path)

    with pytest.raises(RefusalError, match="no-python: No such file"):
        builder.mend([], partial(observe_environment, environment, {}, python))


@pytest.mark.parametrize(
    "packages",
    [
        [],
        [{"name": "one", "version": "1.0", "sha256": []}],
        [{"name": "one", "version": "1.0", "sha256": ["0" * 63]}],
        [{"name": "one", "version": "1.0", "sha256": ["A" * 64]}],
        [{"name": "one", "version": ">=1", "sha256": ["0" * 64]}],
        [{"name": "one @ http://x", "version": "1.0", "sha256": ["0" * 64]}],
        [{"name": "one", "version": "1.0 --index-url=x", "sha256": ["0" * 64]}],
        [{"name": name, "version": "1.0", "sha256": ["0" * 64]} for name in ("Typing_Extensions", "typing-extensions")],
    ],
    ids=["none", "no-hash", "short", "upper-case", "range", "url", "option", "twice"],
)
def test_pins_are_exact_or_refused(packages):
    with pytest.raises(RefusalError, match="Not a set of exact pins"):
        pins_of(packages)


def test_a_pin_becomes_a_line_with_all_its_hashes():
    assert Pin("one", "1.0", ("aa", "bb")).requirement() == "one==1.0 --hash=sha256:aa --hash=sha256:bb\n"


def test_pips_words_are_shown_without_the_insides_of_its_network_library():
    retry = (
        "WARNING: Retrying (Retry(total={}, connect=None, read=None, redirect=None, status=None)) after connection "
        "broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPConnection object at 0x7f54{}>: Failed to "
        "establish a new connection: [Errno 111] Connection refused')': /simple/filelock/"
    )
    words = "\n".join([retry.format(1, 11), retry.format(0, 22), "ERROR: No matching distribution found for filelock"])

    assert readable(words).splitlines() == [
        "WARNING: Retrying after connection broken by 'NewConnectionError('Failed to establish a new connection: "
        "[Errno 111] Connection refused')': /simple/filelock/",
        "ERROR: No matching distribution found for filelock",
    ]
