"""What a lab host takes over from this computer's pip."""

import configparser

from ironlease.lab.pip_config import PipInheritance, effective_options


def read(root, environment=None, proxies=None):
    notes = []
    inherited = PipInheritance.read({"HOME": "/root", **(environment or {})}, root, proxies or {}, notes)
    return inherited, notes


def written(inherited):
    parser = configparser.RawConfigParser()
    parser.read_string(inherited.files["/etc/pip.conf"])
    return {name: value.split() for name, value in parser.items("global")}


def write_conf(root, path, text):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def test_later_sources_win(tmp_path):
    write_conf(
        tmp_path, "etc/xdg/pip/pip.conf", "[global]\nindex-url = https://first/simple\ntimeout = 1\nretries = 1\n"
    )
    write_conf(tmp_path, "etc/pip.conf", "[global]\ntimeout = 2\n")
    write_conf(tmp_path, "root/.config/pip/pip.conf", "[global]\nretries = 3\n[install]\nno_binary = numpy\n")

    options = effective_options({"HOME": "/root", "PIP_TIMEOUT": "4"}, tmp_path)

    assert options == {"index-url": "https://first/simple", "timeout": "4", "retries": "3", "no-binary": "numpy"}


def test_pip_config_file_is_read_and_dev_null_switches_files_off(tmp_path):
    write_conf(tmp_path, "etc/pip.conf", "[global]\ntimeout = 2\n")
    write_conf(tmp_path, "own.conf", "[global]\ntimeout = 9\n")

    assert effective_options({"PIP_CONFIG_FILE": "/own.conf"}, tmp_path) == {"timeout": "9"}
    assert effective_options({"PIP_CONFIG_FILE": "/dev/null"}, tmp_path) == {}


def test_folders_and_files_that_pip_names_come_along(tmp_path):
    (tmp_path / "srv/wheels").mkdir(parents=True)
    write_conf(tmp_path, "etc/constraints.txt", "torch<3\n")

    inherited, notes = read(
        tmp_path, {"PIP_FIND_LINKS": "/srv/wheels https://example.org/wheels", "PIP_CONSTRAINT": "/etc/constraints.txt"}
    )

    assert inherited.folders == ["/srv/wheels"]
    assert inherited.files["/etc/constraints.txt"] == "torch<3\n"
    assert written(inherited) == {
        "find-links": ["/srv/wheels", "https://example.org/wheels"],
        "constraint": ["/etc/constraints.txt"],
    }
    assert notes == []


def test_a_local_index_brings_the_folder_that_its_pages_link_to(tmp_path):
    write_conf(
        tmp_path, "srv/mirror/simple/attrs/index.html", '<a href="../../packages/attrs-25.1-py3-none-any.whl#sha256=0">'
    )

    inherited, _ = read(tmp_path, {"PIP_INDEX_URL": "file:///srv/mirror/simple"})

    assert inherited.folders == ["/srv/mirror/packages", "/srv/mirror/simple"]


def test_passwords_stay_here(tmp_path):
    write_conf(tmp_path, "etc/constraints.txt", "pkg @ https://me:hunter2@example.org/pkg.whl\n")
    write_conf(tmp_path, "etc/client.pem", "-----BEGIN PRIVATE KEY-----\n")

    inherited, notes = read(
        tmp_path,
        {
            "PIP_INDEX_URL": "https://me:hunter2@example.org/simple",
            "PIP_CONSTRAINT": "/etc/constraints.txt",
            "PIP_CERT": "/etc/client.pem",
            "PIP_CLIENT_CERT": "/etc/client.pem",
            "PIP_TIMEOUT": "7",
        },
    )

    everything = "".join(inherited.files.values())
    assert "hunter2" not in everything
    assert "PRIVATE" not in everything
    assert "index-url" not in written(inherited)
    assert "client-cert" not in written(inherited)
    assert written(inherited)["timeout"] == ["7"]
    assert len(notes) == 3


def test_what_names_places_of_this_computer_alone_stays_here(tmp_path):
    inherited, _ = read(tmp_path, {"PIP_TARGET": "/srv/x", "PIP_CACHE_DIR": "/srv/y", "PIP_REQUIRE_VIRTUALENV": "1"})

    assert inherited.files == {}
    assert inherited.folders == []


def test_a_relative_folder_is_noted_and_left_out(tmp_path):
    inherited, notes = read(tmp_path, {"PIP_FIND_LINKS": "wheels"})

    assert inherited.folders == []
    assert "wheels" in notes[0]


def test_the_proxy_of_the_environment_is_written_down_unless_pip_has_its_own(tmp_path):
    proxies = {"http": "http://proxy:3128", "https": "http://proxy:3129"}

    from_environment, _ = read(tmp_path, proxies=proxies)
    own, _ = read(tmp_path, {"PIP_PROXY": "http://other:1"}, proxies=proxies)

    assert written(from_environment)["proxy"] == ["http://proxy:3129"]
    assert written(own)["proxy"] == ["http://other:1"]


def test_a_broken_file_is_pips_to_complain_about(tmp_path):
    write_conf(tmp_path, "etc/pip.conf", "no section\n")

    inherited, _ = read(tmp_path)

    assert inherited.files == {}
