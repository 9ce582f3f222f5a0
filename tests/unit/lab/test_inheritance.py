"""What a lab host takes over from this computer."""

import pytest

from ironlease.lab.credentials import has_credentials
from ironlease.lab.inheritance import extra_certificates, inheritance_of, ports_in, resolver_file, web_proxies

STOCK = "-----BEGIN CERTIFICATE-----\nc3RvY2s=\n-----END CERTIFICATE-----\n"
OWN = "-----BEGIN CERTIFICATE-----\nb3du\n-----END CERTIFICATE-----\n"
# The beginning and the end of what `apt-config dump Acquire` of apt 2.6.1 prints on Debian 12.
APT_DUMP = """\
Acquire "";
Acquire::AllowInsecureRepositories "0";
Acquire::IndexTargets "";
Acquire::IndexTargets::deb::Packages::ShortDescription "Packages";
Acquire::Check-Valid-Until "false";
Acquire::Languages "";
Acquire::Languages:: "none";
"""


@pytest.fixture
def computer(tmp_path):
    files = {
        "etc/resolv.conf": "nameserver 192.0.2.53\n",
        "etc/apt/sources.list.d/debian.sources": "Types: deb\nURIs: http://mirror.example:8081/debian\n"
        "Suites: bookworm\nComponents: main\nSigned-By: /usr/share/keyrings/mirror.gpg\n",
        "etc/apt/sources.list.d/old.list.save": "deb http://forgotten.example/debian bookworm main\n",
        "etc/apt/preferences.d/pin": "Package: *\nPin: release a=bookworm\nPin-Priority: 500\n",
        "usr/share/keyrings/mirror.gpg": "key of the mirror",
        "usr/share/ca-certificates/mozilla/stock.crt": STOCK,
        "etc/ssl/certs/ca-certificates.crt": STOCK.replace("\n", "\r\n") + OWN,
    }
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return tmp_path


def test_sources_their_keys_and_preferences_come_along(computer):
    inherited = inheritance_of({}, computer, APT_DUMP)

    assert set(inherited.apt.files) == {
        "/etc/apt/sources.list.d/debian.sources",
        "/etc/apt/preferences.d/pin",
        "/usr/share/keyrings/mirror.gpg",
    }
    assert list(inherited.apt.sources) == ["/etc/apt/sources.list.d/debian.sources"]


def test_how_apt_fetches_comes_along_without_its_built_in_lists(computer):
    inherited = inheritance_of({}, computer, APT_DUMP)

    assert inherited.apt.options == [
        'Acquire::AllowInsecureRepositories "0";',
        'Acquire::Check-Valid-Until "false";',
        'Acquire::Languages:: "none";',
    ]


def test_ports_of_the_sources_are_let_out(computer):
    inherited = inheritance_of({"PIP_INDEX_URL": "http://pip.example:3141/simple"}, computer, APT_DUMP)

    assert inherited.web_ports == {80, 443, 8081, 3141}


def test_a_source_with_a_password_stays_here(computer):
    (computer / "etc/apt/sources.list").write_text("deb https://me:hunter2@private.example/debian bookworm main\n")
    (computer / "etc/apt/auth.conf").write_text("machine private.example login me password hunter2\n")
    dump = APT_DUMP + 'Acquire::http::Proxy "http://me:hunter2@proxy:3128";\nAcquire::https::SslKey "/etc/key.pem";\n'

    inherited = inheritance_of({}, computer, dump)

    assert "hunter2" not in repr(inherited)
    assert "SslKey" not in "".join(inherited.apt.options)
    assert "/etc/apt/sources.list" not in inherited.apt.files
    assert "/etc/apt/auth.conf" not in inherited.apt.files
    assert len(inherited.notes) == 4


def test_local_sources_are_shown_to_the_host(computer):
    (computer / "srv/mirror").mkdir(parents=True)
    (computer / "etc/apt/sources.list").write_text("deb [trusted=yes] file:/srv/mirror ./\ndeb file:///srv/none ./\n")

    inherited = inheritance_of({}, computer, APT_DUMP)

    assert inherited.bind_read_only == ["/srv/mirror"]


def test_a_folder_that_holds_the_whole_computer_is_not_shown(computer):
    (computer / "home").mkdir()

    inherited = inheritance_of({"PIP_FIND_LINKS": "/home"}, computer, APT_DUMP)

    assert inherited.bind_read_only == []
    assert "/home" in inherited.notes[0]


def test_only_authorities_beyond_debians_own_come_along(computer):
    assert extra_certificates(computer) == [OWN]


def test_a_computer_without_certificates_hands_none_on(tmp_path):
    assert extra_certificates(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nameserver 192.0.2.1\nsearch example.org\n", "search example.org\nnameserver 192.0.2.1\n"),
        ("nameserver 127.0.0.53\noptions edns0\n", "options edns0\nnameserver 10.77.255.3\n"),
        ("nameserver ::1\nnameserver 127.0.0.1\n", "nameserver 10.77.255.3\n"),
        ("nameserver fe80::1%eth0\nnameserver 192.0.2.1\n", "nameserver 10.77.255.3\nnameserver 192.0.2.1\n"),
        ("# nameserver 192.0.2.1\n", "nameserver 10.77.255.3\n"),
    ],
)
def test_resolvers_that_only_this_computer_reaches_are_replaced(text, expected):
    assert resolver_file(text) == expected


def test_proxies_that_a_lab_host_can_use():
    notes = []
    environment = {"http_proxy": "http://proxy.example:3128", "HTTPS_PROXY": "http://proxy.example:3129"}

    assert web_proxies(environment, notes) == {
        "http": "http://proxy.example:3128",
        "https": "http://proxy.example:3129",
    }
    assert notes == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:3128", "http://localhost:3128", "http://me:hunter2@proxy:3128"])
def test_other_proxies_are_noted_and_left_out(url):
    notes = []

    assert web_proxies({"http_proxy": url}, notes) == {}
    assert len(notes) == 1
    assert "hunter2" not in notes[0]


def test_the_proxy_reaches_apt_and_pip(computer):
    inherited = inheritance_of({"http_proxy": "http://proxy.example:3128"}, computer, APT_DUMP)

    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in inherited.apt.options
    assert "proxy = http://proxy.example:3128" in inherited.host_files["/etc/pip.conf"]
    assert 3128 in inherited.web_ports


def test_ports_in_ignores_what_is_no_port():
    assert ports_in("http://a:80000/ https://b:x/ http://c/ https://d:8443/x") == {8443}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://me:secret@example.org/", True),
        ("https://token@example.org/", True),
        ("https://example.org/@scope/package", False),
        ("https://example.org/ me@example.org", False),
    ],
)
def test_has_credentials(text, expected):
    assert has_credentials(text) is expected
