"""Each thing that the roles manage is changed once behind their back: it is seen, and a plain run mends it."""

import json

import pytest

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def provisioned(desk):
    """A provisioned lab1 whose /dev/shm was too small, so that its size is managed too."""
    desk.lab.up(["lab1"])
    desk.inside("lab1", "mount -o remount,size=512M /dev/shm")
    ended = desk.provision("lab1")
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    return desk


def break_package(thing):
    if thing["name"] == "python3.11":
        # Removing the interpreter would remove what everything else needs; half installed is broken enough.
        return "cd /tmp && apt-get -qq update && apt-get -qq download python3.11 && dpkg --unpack python3.11_*.deb"
    return f"dpkg --force-depends --remove {thing['name']}"


def break_file(thing):
    return f"echo '# somebody was here' >> {thing['path']}"


BREAKERS = {
    "mount_size": lambda thing: f"mount -o remount,size=64M {thing['path']}",
    "package": break_package,
    "file": break_file,
    "directory": lambda thing: f"chmod 0700 {thing['path']}",
    "user": lambda thing: f"userdel {thing['name']}",
    "sysctl": lambda thing: f"sysctl -w {thing['name']}='4096 8192 16384'",
    "unit": lambda thing: f"systemctl disable --now {thing['name']}",
    "python_environment": lambda thing: f"rm -r {thing['path']}/lib/python3*/site-packages/sympy/core",
}


def observe(desk, document):
    """Ask the agent that the roles left on the host."""
    desk.inside("lab1", f"cat > /tmp/footprint.json <<'END'\n{json.dumps(document)}\nEND")
    return json.loads(desk.inside("lab1", "python3 -I /opt/ironlease/node/agent.pyz observe < /tmp/footprint.json"))


def target(thing):
    return thing.get("path") or thing["name"]


def test_each_managed_thing_is_seen_to_differ_and_one_plain_run_mends_all(provisioned):
    document = json.loads((provisioned.state / "hosts/lab1/footprint.json").read_text())
    # The agent's own file comes last: it is what looks.
    things = sorted(document["things"], key=lambda thing: target(thing) == "/opt/ironlease/node/agent.pyz")
    document["things"] = things
    assert observe(provisioned, document)["differences"] == []

    broken = set()
    for index, thing in enumerate(things[:-1]):
        provisioned.inside("lab1", BREAKERS[thing["kind"]](thing))
        seen = {difference["index"] for difference in observe(provisioned, document)["differences"]}
        assert index in seen, f"nobody saw that {thing['kind']} {target(thing)} was changed"
        broken |= seen
    assert broken == set(range(len(things) - 1))
    provisioned.inside("lab1", break_file(things[-1]))

    mended = provisioned.provision("lab1", flags=("--yes",))
    again = provisioned.provision("lab1")

    assert mended.exit_code == 0, mended.stdout + mended.stderr
    assert mended.host("lab1")["changed"] > 0
    assert (again.host("lab1")["changed"], again.host("lab1")["failed"]) == (0, 0)
    assert observe(provisioned, document)["differences"] == []


@pytest.mark.parametrize(
    "mutations",
    [
        [
            "chmod 0600 /etc/security/limits.d/90-ironlease.conf",
            "chown nobody /usr/local/bin/ironlease-node",
            "rm /etc/ironlease/node.json",
            "systemctl mask --now chrony.service",
        ],
        [
            "rm /etc/security/limits.d/90-ironlease.conf && mkdir /etc/security/limits.d/90-ironlease.conf.d",
            "ln -sf /bin/false /opt/ironlease/envs/torch-cpu/bin/python3.11",
        ],
    ],
    ids=["owners, modes, units", "another kind of file, another interpreter"],
)
def test_other_ways_to_break_it_are_mended_by_a_plain_run_too(provisioned, mutations):
    for mutation in mutations:
        provisioned.inside("lab1", mutation)

    mended = provisioned.provision("lab1")
    again = provisioned.provision("lab1")

    assert mended.exit_code == 0, mended.stdout + mended.stderr
    assert mended.host("lab1")["changed"] >= len(mutations)
    assert (again.host("lab1")["changed"], again.host("lab1")["observed"]) == (0, True)
