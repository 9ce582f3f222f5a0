import subprocess

import pytest

from ironlease.ssh import options

SSH = "ssh -o ServerAliveInterval=5 -o ServerAliveCountMax=6"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("-o ProxyUseFdpass=yes", {"proxyusefdpass": "yes"}),
        ("-oUser=root -C", {"user": "root"}),
        ("-o 'ProxyCommand=nc -x a:1 %h %p'", {"proxycommand": "nc -x a:1 %h %p"}),
        ("-o 'ProxyCommand nc %h %p'", {"proxycommand": "nc %h %p"}),
        ("-o ConnectTimeout=3 -o ConnectTimeout=9", {"connecttimeout": "3"}),
        ("-J jump.example", {"proxycommand": f"{SSH} -W %h:%p ssh://jump.example"}),
        ("-o ProxyJump=me@jump.example:2222", {"proxycommand": f"{SSH} -W %h:%p ssh://me@jump.example:2222"}),
        ("-J a.example,b.example", {"proxycommand": f"{SSH} -J a.example -W %h:%p ssh://b.example"}),
        ("-o ProxyJump=none", {}),
    ],
)
def test_options_are_read_as_openssh_reads_them(arguments, expected):
    assert options.parse(arguments) == expected


def test_openssh_understands_the_jump_hosts_user_and_port():
    command = options.parse("-J me@jump.example:2222")["proxycommand"].replace("%h:%p", "10.0.0.1:22").split()

    shown = subprocess.run([command[0], "-G", *command[1:]], capture_output=True, text=True, timeout=10, check=True)

    assert {"hostname jump.example", "user me", "port 2222"} <= set(shown.stdout.splitlines())
