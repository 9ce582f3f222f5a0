"""Secrets are planted everywhere, everything is done that could spill them, and then everything is searched."""

import base64
import contextlib
import tarfile
import threading
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab

SECRETS = {
    "password of the login and of sudo": "Tulip-login-5c1f",
    "ansible_password in the inventory": "Tulip-inventory-77ab",
    "token in the environment": "Tulip-token-e09d",
    "password in an apt source": "Tulip-apt-31c8",
    "password in pip's index": "Tulip-pip-b6f2",
    "setting of the seller's": "Tulip-seller-40dd",
    "private key of the seller's": "TulipSellerKeyMaterial8e5a",
}
LOGIN = SECRETS["password of the login and of sudo"]
NODE = {"ansible_host": "10.77.0.11", "ansible_user": "ml"}

PLANT = f"""
useradd --create-home --shell /bin/bash ml
echo 'ml:{LOGIN}' | chpasswd
echo 'ml ALL=(ALL) ALL' > /etc/sudoers.d/ml
echo 'api_token = {SECRETS["setting of the seller's"]}' > /etc/seller.conf
printf -- '-----BEGIN PRIVATE KEY-----\\n{SECRETS["private key of the seller's"]}\\n-----END PRIVATE KEY-----\\n' \
    > /etc/seller.pem
cp -a /etc/apt /root/apt.seller
echo 'deb http://ml:{SECRETS["password in an apt source"]}@127.0.0.1:9/debian bookworm main' \
    > /etc/apt/sources.list.d/private.list
dpkg --purge chrony > /dev/null 2>&1
# The seller's state is saved again, with all of this in it.
rm -r /var/lib/ironlease
"""
BREAK_PIP = f"""
rm -r /etc/apt && mv /root/apt.seller /etc/apt
rm /opt/ironlease/envs/torch-cpu/lib/python3*/site-packages/filelock/__init__.py
for file in /etc/pip.conf /etc/xdg/pip/pip.conf; do if [ -e $file ]; then mv $file $file.seller; fi; done
printf '[global]\\nindex-url = http://ml:{SECRETS["password in pip's index"]}@127.0.0.1:9/simple\\nretries = 1\\n' \
    > /etc/pip.conf
"""
MEND_PIP = """
rm /etc/pip.conf
for file in /etc/pip.conf /etc/xdg/pip/pip.conf; do if [ -e $file.seller ]; then mv $file.seller $file; fi; done
"""
# What a command of ours may have written to on a host.
PLACES = "/var/log /var/lib/ironlease /etc/ironlease /opt/ironlease /run/ironlease /tmp /var/tmp /root/.ansible /home"


def forms(secret):
    """Return how a secret may be written."""
    return [secret.encode(), base64.b64encode(secret.encode()).rstrip(b"=")]


def found_in(data, secrets=SECRETS):
    return {name for name, secret in secrets.items() if any(form in data for form in forms(secret))}


class Watch:
    """Looks all the time at every process's arguments, at Ansible's environment, and at temporary files."""

    def __init__(self, folder):
        self._folder = folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.seen = set()
        self.files = set()
        self.commands = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _look(self):
        while not self._over.is_set():
            for entry in Path("/proc").iterdir():
                if entry.name.isdigit():
                    with contextlib.suppress(OSError):
                        self._look_at(entry)
            for path in self._folder.rglob("*"):
                with contextlib.suppress(OSError):
                    if path.is_file():
                        self.files.add(path.name)
                        self.seen |= {(str(path), name) for name in found_in(path.read_bytes())}
            time.sleep(0.05)

    def _look_at(self, process):
        arguments = (process / "cmdline").read_bytes()
        self.seen |= {(arguments.decode(errors="replace"), name) for name in found_in(arguments)}
        environment = (process / "environ").read_bytes()
        if b"IRONLEASE_PLAN_DIR=" in environment:
            self.commands += 1
            self.seen |= {(f"environment of {arguments!r}", name) for name in found_in(environment)}


@pytest.fixture(scope="module")
def spilled(workshop, tmp_path_factory):
    """Everything that could spill a secret has been done; returns the desk, what was watched, and what was printed."""
    workshop.lab.reset(["lab1"], layer="provisioned")
    workshop.inside("lab1", PLANT)
    # Kept in the host: what the tests themselves type is watched too.
    workshop.inside("lab1", f"cat > /root/break-pip <<'END'\n{BREAK_PIP}\nEND")
    desk = workshop.with_state_of_its_own(tmp_path_factory.mktemp("secrets"))
    temporary = desk.folder / "tmp"
    temporary.mkdir()
    desk.environment |= {
        "TMPDIR": str(temporary),
        "HF_TOKEN": SECRETS["token in the environment"],
        "AWS_SECRET_ACCESS_KEY": SECRETS["token in the environment"],
    }
    fleet = desk.inventory(
        node1={
            **NODE,
            "ansible_password": SECRETS["ansible_password in the inventory"],
            "ansible_become_password": LOGIN,
        }
    )
    (desk.folder / "password").write_text(f"{LOGIN}\n")
    common = ("--inventory", fleet, "--host", "node1", "--password-file", str(desk.folder / "password"))
    fingerprint = desk.inside("lab1", "ssh-keygen -l -f /etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    with Watch(temporary) as watch:
        ended = {
            "enrol": desk.invoke("enrol", *common, "--fingerprint", fingerprint),
            "apt fails": desk.invoke("provision", *common, "--debug"),
        }
        desk.inside("lab1", "bash -eu /root/break-pip")
        ended["pip fails"] = desk.invoke("provision", *common)
        desk.inside("lab1", MEND_PIP)
        ended["provision"] = desk.invoke("provision", *common, "--debug")
    return desk, watch, ended


def test_what_could_spill_them_really_happened(spilled):
    _, watch, ended = spilled

    outcomes = {what: (one.exit_code, *one.codes()) for what, one in ended.items()}
    assert outcomes == {
        "enrol": (0,),
        "apt fails": (4, "package-source-unreachable"),
        "pip fails": (4, "package-source-unreachable"),
        "provision": (0,),
    }
    assert {"extravars", "command"} <= watch.files
    assert watch.commands > 0


def test_a_planted_secret_would_be_found(tmp_path):
    assert found_in(b"x" + base64.b64encode(LOGIN.encode()) + b"y") == {"password of the login and of sudo"}
    (tmp_path / "spilled").write_text(LOGIN)
    with Watch(tmp_path) as watch:
        time.sleep(0.5)
    assert watch.seen == {(str(tmp_path / "spilled"), "password of the login and of sudo")}


def test_no_secret_is_printed(spilled):
    _, _, ended = spilled

    for what, one in ended.items():
        assert found_in((one.stdout + one.stderr).encode()) == set(), what


def test_no_secret_is_in_an_argument_an_environment_or_a_temporary_file(spilled):
    desk, watch, _ = spilled

    assert watch.seen == set()
    assert list((desk.folder / "tmp").iterdir()) == []


def test_no_secret_is_in_a_file_that_stays_on_this_computer(spilled):
    desk, _, _ = spilled
    # The private key that was made for this inventory lies in its own file, and nowhere else.
    key = desk.state / "keys" / "fleet" / "id_ed25519"
    secrets = SECRETS | {"our private key": key.read_text().splitlines()[2]}

    files = [path for folder in (desk.state, desk.runs) for path in folder.rglob("*") if path.is_file()]
    spilled_into = {path: found_in(path.read_bytes(), secrets) for path in files if path != key}

    assert key.stat().st_mode & 0o777 == 0o600
    assert any(path.name == "result.json" for path in files)
    assert {path: names for path, names in spilled_into.items() if names} == {}


def test_the_copy_of_the_sellers_state_leaves_them_out(spilled):
    desk, _, _ = spilled
    (archive,) = (desk.state / "hosts/node1/seller-state").glob("*.tar.gz")

    with contextlib.closing(tarfile.open(archive)) as tar:
        members = [member for member in tar if member.isfile()]
        contents = b"\0".join(tar.extractfile(member).read() for member in members)

    assert "etc/sudoers.d/ml" in [member.name for member in members]
    assert found_in(contents) == set()


def test_no_secret_stays_on_the_host(spilled):
    desk, _, _ = spilled
    patterns = "\n".join(form.decode() for secret in SECRETS.values() for form in forms(secret))
    desk.inside("lab1", f"cat > /root/patterns <<'END'\n{patterns}\nEND")

    found = desk.inside("lab1", f"grep -rlaFf /root/patterns {PLACES} 2>/dev/null || true")
    journal = desk.inside("lab1", "journalctl --no-pager | grep -aFf /root/patterns || true")
    logged = desk.inside("lab1", "journalctl --no-pager | grep -c 'sudo.*COMMAND='")
    own = desk.inside("lab1", "grep -rlaFf /root/patterns /etc/seller.conf")

    assert (found, journal) == ("", "")
    assert int(logged) > 0
    assert own == "/etc/seller.conf"
