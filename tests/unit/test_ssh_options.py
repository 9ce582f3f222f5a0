import pytest

from ironlease.ssh import options


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("-o ProxyUseFdpass=yes", {"proxyusefdpass": "yes"}),
        ("-oUser=root -C", {"user": "root"}),
        ("-o 'ProxyCommand=nc -x a:1 %h %p'", {"proxycommand": "nc -x a:1 %h %p"}),
        ("-o 'ProxyCommand nc %h %p'", {"proxycommand": "nc %h %p"}),
        ("-o ConnectTimeout=3 -o ConnectTimeout=9", {"connecttimeout": "3"}),
        ("-J jump.example", {"proxycommand": "ssh -W %h:%p jump.example"}),
        ("-o ProxyJump=me@jump.example:2222", {"proxycommand": "ssh -W %h:%p me@jump.example:2222"}),
        ("-o ProxyJump=none", {}),
    ],
)
def test_options_are_read_as_openssh_reads_them(arguments, expected):
    assert options.parse(arguments) == expected
