"""Inventories are read as Ansible reads them, and every ironlease_* variable is checked."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ironlease import inventory, redact
from ironlease.errors import CombinedError, IronleaseError, UsageError


@pytest.fixture
def write(tmp_path):
    def write_files(hosts: str, **others: str) -> Path:
        (tmp_path / "hosts.yml").write_text(hosts, encoding="utf-8")
        for name, text in others.items():
            path = tmp_path / name.replace("__", "/")
            path = path.with_name(f"{path.name}.yml")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write_files


def errors_of(path: Path) -> list[IronleaseError]:
    with pytest.raises(IronleaseError) as raised:
        inventory.load(path)
    error = raised.value
    return list(error.errors) if isinstance(error, CombinedError) else [error]


def test_groups_ranges_and_templates_mean_what_they_mean_in_ansible(write):
    path = write(
        """
gpu_nodes:
  hosts:
    node[1:3]:
  vars:
    ansible_user: ubuntu
    ansible_ssh_common_args: "-o ProxyCommand='{{ inventory_dir }}/enter {{ inventory_hostname }}'"
cpu_nodes:
  hosts:
    node9: {ansible_host: 198.51.100.9, ansible_port: "2222", ansible_become: "yes"}
""",
        group_vars__gpu_nodes="ironlease_stack: torch-{{ flavour }}\nflavour: cu128\n",
        group_vars__all="ironlease_lease: {ends_at: 2026-12-31T18:00:00+08:00}\n",
        host_vars__node2="ansible_host: 198.51.100.2\nansible_ssh_extra_args: -o Compression=yes\n"
        "ansible_ssh_private_key_file: ~/.ssh/id_node2\n",
    )

    read = inventory.load(path)

    node1, node2, node3, node9 = read.hosts
    assert [host.name for host in read.hosts] == ["node1", "node2", "node3", "node9"]
    assert (node1.address, node2.address) == ("node1", "198.51.100.2")
    assert (node1.user, node9.user) == ("ubuntu", None)
    assert node3.stack == "torch-cu128"
    assert node3.groups == ("gpu_nodes",)
    assert node1.ssh_arguments == f"-o ProxyCommand='{path}/enter node1'"
    assert node2.ssh_arguments == f"-o ProxyCommand='{path}/enter node2' -o Compression=yes"
    assert node2.private_key == Path("~/.ssh/id_node2").expanduser()
    assert (node9.port, node1.port) == (2222, None)
    assert (node9.become, node1.become) == (True, None)
    assert node9.lease.ends_at == datetime(2026, 12, 31, 10, tzinfo=UTC)
    assert type(node3.stack) is str
    assert type(inventory.load(path).host("node1").lease.ends_at) is datetime


def test_all_ironlease_variables_become_typed(write):
    path = write(
        """
gpu_nodes:
  hosts:
    node1:
      ironlease_expect: {gpu: H100-SXM-80G, gpus: 8, link: nvlink, fabric: roce, nic_gbps: 400, nics: 8}
      ironlease_checkpoints: {runs: [{name: sft, path: /data/ckpt}], store: "s3://bucket/prefix", keep_last: 2}
      ironlease_tuning: {sysctl: {vm.swappiness: 10}, open_files: 4096, shm_gib: 8}
      ironlease_training_user: trainer
      ironlease_index_url: https://mirror.example/simple
"""
    )

    node1 = inventory.load(path).host("node1")

    assert node1.expect.gpu == "H100-SXM-80G"
    assert node1.checkpoints.runs[0].path == "/data/ckpt"
    assert node1.tuning.sysctl == {"vm.swappiness": "10"}
    assert (node1.tuning.open_files, node1.tuning.shm_gib) == (4096, 8)
    assert (node1.training_user, node1.index_url) == ("trainer", "https://mirror.example/simple")


@pytest.mark.parametrize("name", ["../../somewhere", "a/b", "..", ".hidden", "-oProxyCommand=x", "a\\x1bb"])
def test_a_host_is_called_by_a_name_and_not_by_a_path(write, name):
    (error,) = errors_of(write(f'gpu_nodes:\n  hosts:\n    "{name}": {{}}\n'))

    assert (error.code, error.exit_code) == ("host-name", 2)


@pytest.mark.parametrize(
    ("variables", "found", "needed"),
    [
        pytest.param("ironlease_stak: x", "ironlease_stak", "Did you mean ironlease_stack?", id="unknown variable"),
        pytest.param(
            "ironlease_lease: {ends_at: 2026-12-31T18:00:00+08:00, price: 1}",
            "unknown key ironlease_lease.price",
            "Did you mean price_cny_month",
            id="unknown key",
        ),
        pytest.param(
            "ironlease_lease: {ends_at: 2026-12-31T18:00:00}", "names no offset", "A time with its offset", id="naive"
        ),
        pytest.param("ironlease_lease: {ends_at: soon}", "is no time", "A time as in ISO 8601", id="malformed time"),
        pytest.param(
            "ironlease_expect: {gpu: H100-SXM-80}", "'H100-SXM-80'", "did you mean H100-SXM-80G?", id="unknown GPU"
        ),
        pytest.param("ironlease_expect: {gpus: 0}", "gpus is 0", "Greater than or equal to 1.", id="no GPUs"),
        pytest.param(
            "ironlease_checkpoints: {runs: [], store: 's3://b'}", "runs is []", "At least 1", id="no training runs"
        ),
        pytest.param(
            "ironlease_checkpoints: {runs: [{name: a, path: data}], store: 's3://b'}",
            "'data'",
            "absolute path",
            id="relative path",
        ),
        pytest.param(
            "ironlease_checkpoints: {runs: [{name: a, path: /x/../y}], store: 's3://b'}",
            "'/x/../y'",
            "without `..`",
            id="path that climbs",
        ),
        pytest.param(
            "ironlease_checkpoints: {runs: [{name: a, path: /a}, {name: a, path: /b}], store: 's3://b'}",
            "two runs with the name a",
            "A name of its own",
            id="one name twice",
        ),
        pytest.param(
            "ironlease_checkpoints: {runs: [{name: a, path: /a}], store: 'ftp://b/c'}",
            "'ftp://b/c'",
            "s3://bucket/prefix",
            id="no store",
        ),
        pytest.param("ironlease_training_user: Root", "'Root'", "pattern", id="no user name"),
        pytest.param("ironlease_index_url: mirror", "'mirror'", "https://mirror.example/simple", id="no URL"),
        pytest.param("ironlease_tuning: {open_files: 10}", "open_files is 10", "1024", id="too few files"),
        pytest.param("ansible_port: ssh", "ansible_port is 'ssh'", "A port from 1 to 65535", id="no port"),
        pytest.param("ansible_port: 65536", "ansible_port is 65536", "A port from 1 to 65535", id="port too high"),
        pytest.param("ansible_connection: local", "ansible_connection is 'local'", "over SSH", id="local connection"),
    ],
)
def test_a_mistake_names_the_line_and_the_cure(write, variables, found, needed):
    path = write(f"gpu_nodes:\n  hosts:\n    node1:\n      {variables}\n")

    (error,) = errors_of(path)

    assert found in error.found
    assert needed in error.needed
    assert "+4 " in error.next_step
    assert "hosts.yml" in error.next_step
    assert error.exit_code == 2


def test_the_line_is_that_of_the_host_which_is_wrong(write):
    path = write(
        """gpu_nodes:
  hosts:
    node1:
      ironlease_lease: {ends_at: "2026-12-31T18:00:00+08:00"}
    node[2:3]:
      ironlease_lease: {ends_at: "2026-12-31T18:00:00"}
"""
    )

    (error,) = errors_of(path)

    assert "hosts.yml:6:" in error.found


def test_a_mistake_in_a_group_is_told_once_with_its_own_file(write):
    path = write("gpu_nodes:\n  hosts:\n    node[1:8]:\n", group_vars__gpu_nodes="\nironlease_stak: x\n")

    (error,) = errors_of(path)

    assert "group_vars/gpu_nodes.yml:2:" in error.found


def test_mistakes_of_all_hosts_are_told_at_once(write):
    path = write("all:\n  hosts:\n    a: {ironlease_stak: x}\n    b: {ironlease_leas: {}}\n")

    assert len(errors_of(path)) == 2


@pytest.mark.parametrize("store", ["s3://key:hunter2secret@bucket/prefix", "s3://hunter2secret@bucket/prefix"])
def test_credentials_in_a_url_are_refused_and_not_shown(write, store):
    path = write(
        f"all:\n  hosts:\n    a: {{ironlease_checkpoints: {{runs: [{{name: r, path: /r}}], store: '{store}'}}}}\n"
    )

    (error,) = errors_of(path)

    assert "hunter2secret" not in str(error.as_dict())


def test_a_password_in_plain_text_is_a_warning_and_is_kept_nowhere(write):
    path = write("all:\n  hosts:\n    a: {ansible_password: hunter2secret}\n    b: {}\n")

    read = inventory.load(path)

    (warning,) = read.warnings
    assert (warning.code, warning.severity) == ("secret-in-inventory", "warn")
    assert "--password-file" in warning.next_step
    assert "+3 " in warning.next_step
    assert "hunter2secret" not in repr(read)
    assert redact.scrub("it was hunter2secret") == "it was ********"


@pytest.mark.parametrize(
    "value", ["\"{{ lookup('env', 'PASSWORD') }}\"", "!vault |\n          $ANSIBLE_VAULT;1.1;AES256\n          6162"]
)
def test_a_password_from_elsewhere_is_no_warning(write, value):
    path = write(f"all:\n  hosts:\n    a:\n      ansible_password: {value}\n")

    assert inventory.load(path).warnings == []


@pytest.mark.parametrize(
    ("names", "group", "chosen"),
    [
        pytest.param(["b", "a"], None, ["a", "b"], id="names, in the inventory's order"),
        pytest.param([], "left", ["a", "b"], id="a group"),
        pytest.param(["c", "a"], "left", ["a", "b", "c"], id="both, each once"),
        pytest.param([], "all", ["a", "b", "c"], id="all"),
    ],
)
def test_select(write, names, group, chosen):
    read = inventory.load(write("left:\n  hosts: {a: {}, b: {}}\nright:\n  hosts: {c: {}}\n"))

    assert [host.name for host in read.select(names, group)] == chosen


@pytest.mark.parametrize(
    ("names", "group", "code", "needed"),
    [
        pytest.param(["nod1"], None, "unknown-host", "did you mean node1?", id="host"),
        pytest.param([], "gpu_node", "unknown-group", "did you mean gpu_nodes?", id="group"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(write, names, group, code, needed):
    read = inventory.load(write("gpu_nodes:\n  hosts: {node1: {}}\n"))

    with pytest.raises(UsageError) as raised:
        read.select(names, group)

    assert raised.value.code == code
    assert needed in raised.value.needed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        pytest.param("gpu_nodes: [\n", "yaml-broken", id="broken YAML"),
        pytest.param("gpu_nodes: {hosts: {a: {}, a: {}}}\n", "yaml-broken", id="a host twice"),
        pytest.param("gpu_nodes: {hosts: {}}\n", "inventory-empty", id="no host"),
        pytest.param("gpu_nodes: text\n", "inventory-empty", id="no mapping"),
        pytest.param("all: {hosts: {a: {ironlease_stack: '{{ nothing }}'}}}\n", "inventory-broken", id="template"),
    ],
)
def test_an_inventory_that_cannot_be_read_is_one_error(write, capfd, text, code):
    (error,) = errors_of(write(text))

    assert error.code == code
    assert error.found
    assert error.next_step
    assert capfd.readouterr() == ("", "")


def test_one_file_that_nobody_can_read_breaks_the_inventory(write):
    path = write("all: {hosts: {a: {}}}\n")
    (path / "more.ini").write_text("[unclosed\n", encoding="utf-8")

    (error,) = errors_of(path)

    assert error.code == "inventory-broken"
    assert "more.ini" in error.found


def test_a_missing_inventory_is_one_error(tmp_path):
    (error,) = errors_of(tmp_path / "nowhere")

    assert error.code == "unknown-inventory"


def test_ansible_is_imported_only_when_an_inventory_is_read():
    program = (
        "import sys, ironlease.inventory; sys.exit(any(name.partition('.')[0] == 'ansible' for name in sys.modules))"
    )

    completed = subprocess.run([sys.executable, "-c", program], check=False, timeout=60)

    assert completed.returncode == 0
