"""The lab inventory as the lab reads it, and as Ansible does."""

import pytest

from ironlease.errors import UsageError
from ironlease.lab.inventory import read_lab_hosts
from ironlease.paths import Project


def write(tmp_path, text):
    path = tmp_path / "hosts.yml"
    path.write_text(text, encoding="utf-8")
    return path


def test_our_own_inventory_has_four_hosts():
    hosts = read_lab_hosts(Project.here().inventories / "lab" / "hosts.yml")

    assert list(hosts) == ["lab1", "lab2", "lab3", "lab4"]
    assert hosts["lab1"] == "10.77.0.11"


def test_hosts_in_nested_groups_are_found_once(tmp_path):
    path = write(
        tmp_path,
        "all: {children: {gpu_nodes: {hosts: {one: {ansible_host: 10.77.0.20}}}, others: {hosts: {one: }}}}\n",
    )

    assert read_lab_hosts(path) == {"one": "10.77.0.20"}


@pytest.mark.parametrize(
    "hosts",
    [
        "{one: {ansible_host: 192.0.2.1}}",
        "{one: {ansible_host: 10.77.0.1}}",
        "{one: {ansible_host: 10.77.0.255}}",
        "{one: {ansible_host: example.org}}",
        "{one: }",
        "{one: {ansible_host: 10.77.0.11}, two: {ansible_host: 10.77.0.11}}",
        "{}",
    ],
)
def test_an_address_that_the_lab_cannot_have_is_refused(tmp_path, hosts):
    with pytest.raises(UsageError) as refused:
        read_lab_hosts(write(tmp_path, f"gpu_nodes: {{hosts: {hosts}}}\n"))

    assert refused.value.code == "lab-inventory"


@pytest.mark.parametrize("text", ["[", "", "just words\n"])
def test_what_is_no_inventory_is_refused(tmp_path, text):
    with pytest.raises(UsageError):
        read_lab_hosts(write(tmp_path, text))


def test_a_missing_inventory_is_refused(tmp_path):
    with pytest.raises(UsageError):
        read_lab_hosts(tmp_path / "none.yml")
