"""dpkg's status file, APT's sources, and the removal of credentials."""

from __future__ import annotations

import pytest

from ironlease_node import apt_sources, dpkg
from ironlease_node.host import Host, Unreadable
from ironlease_node.text import canonical_json, without_credentials


def test_text_of_a_description_is_no_field(gpu_server):
    database = dpkg.read(gpu_server)

    assert database.native_architecture == "amd64"
    assert database.packages["unattended-upgrades"].version == "2.8ubuntu1"
    assert database.packages["unattended-upgrades"].state == "installed"


def test_find_takes_the_native_architecture_spelled_out(gpu_server):
    database = dpkg.read(gpu_server)

    assert database.find("libc6").architecture == "amd64"
    assert database.find("libc6:amd64").architecture == "amd64"
    assert database.find("libc6:i386").architecture == "i386"
    assert database.find("libc6:arm64") is None


def test_last_stanza_without_an_empty_line_counts():
    database = dpkg.parse_status("Package: a\nStatus: install ok installed\nArchitecture: all\nVersion: 1")

    assert database.installed() == {"a": "1"}


def test_removed_package_is_not_installed(gpu_server):
    assert "old-tool" not in dpkg.read(gpu_server).installed()


def test_automatic_packages(gpu_server):
    assert dpkg.automatic_packages(gpu_server) == ["libc6"]


def test_missing_status_file_is_unreadable(root):
    with pytest.raises(Unreadable, match="/var/lib/dpkg/status"):
        dpkg.read(Host(root))


def test_sources_of_both_formats_without_credentials(gpu_server):
    sources = apt_sources.read(gpu_server)

    assert [(source["file"].rpartition("/")[2], source["uris"], source["suites"]) for source in sources] == [
        ("sources.list", ["http://mirror.example.com/ubuntu"], ["jammy"]),
        ("sources.list", ["http://mirror.example.com/ubuntu"], ["jammy"]),
        ("cuda.list", ["https://repo.example.com/cuda/ubuntu2204/x86_64/"], ["/"]),
        (
            "extra.sources",
            ["https://a.example.com/debian", "https://b.example.com/debian"],
            ["stable", "stable-updates"],
        ),
        ("extra.sources", ["https://c.example.com/x"], ["./"]),
    ]
    first, second, cuda, extra, plain = sources
    assert first["architectures"] == ["amd64"]
    assert first["components"] == ["main", "universe"]
    assert first["signed_by"] == "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
    assert second["types"] == ["deb-src"]
    assert cuda["credentials_removed"] is True
    assert first["credentials_removed"] is False
    assert (extra["enabled"], extra["trusted"], extra["signed_by"]) == (False, True, "embedded key")
    assert (plain["enabled"], plain["trusted"], plain["signed_by"]) == (True, False, "/etc/apt/keyrings/c.asc")
    assert "s3cret-word" not in str(sources)


def test_a_source_that_apt_would_refuse_is_a_problem_and_does_not_leak():
    with pytest.raises(Unreadable) as caught:
        apt_sources.parse_one_line("/etc/apt/sources.list", "deb https://u:s3cret-word@example.com\n")

    assert "s3cret-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://user:pw@example.com/x", "https://example.com/x"),
        ("get http://token@example.com and ftp://a:b@c/d", "get http://example.com and ftp://c/d"),
        ("https://example.com/a@b", "https://example.com/a@b"),
        ("mail me@example.com", "mail me@example.com"),
    ],
)
def test_without_credentials(text, clean):
    assert without_credentials(text) == clean


def test_canonical_json_has_one_spelling():
    assert canonical_json({"b": [1, "é"], "a": None}) == b'{"a":null,"b":[1,"\\u00e9"]}'
