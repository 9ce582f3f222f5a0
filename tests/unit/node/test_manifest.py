from __future__ import annotations

import json

import pytest

from ironlease_node import manifest, python_packages
from ironlease_node.host import Host
from ironlease_node.refusal import Refusal


@pytest.fixture
def collected(gpu_server):
    return manifest.collect(gpu_server, None)


def test_what_is_there(collected):
    assert collected["problems"] == []
    assert collected["accelerators"] == {"10de:2330": 3, "19e5:d802": 1}
    assert collected["kernel"] == {"architecture": "x86_64", "release": "5.15.0-130-generic"}
    assert collected["os"] == {"id": "ubuntu", "version_id": "22.04"}
    assert collected["nvidia_driver"]["version"] == "580.65.06"
    assert collected["packages"]["dpkg"] == "1.21.1ubuntu2.3"
    assert collected["packages_of_training"] == {"libc6": "2.35-0ubuntu3.8"}
    assert collected["python_environment"] is None
    assert set(collected["settings_files"]) == {"/etc/security/limits.conf", "/etc/sysctl.d/99-seller.conf"}
    assert collected["sysctl"]["vm.swappiness"] == "60"


def test_only_variables_of_the_training_and_no_secret_are_reported(collected):
    assert collected["environment_variables"] == {"NCCL_IB_HCA": "=mlx5_0", "UCX_TLS": "rc"}
    assert "abcd1234" not in json.dumps(collected)


def test_digest_is_the_same_when_nothing_changed(gpu_server, collected):
    assert manifest.collect(gpu_server, None)["digest"] == collected["digest"]
    assert len(collected["digest"]) == 64


@pytest.mark.parametrize(
    "files",
    [
        {"/proc/sys/kernel/hostname": "another\n"},
        {"/proc/sys/kernel/random/boot_id": "another\n"},
        {"/proc/cmdline": "quiet\n"},
        {"/etc/sysctl.d/README.sysctl": "another\n"},
        {"/etc/environment": 'NCCL_IB_HCA="=mlx5_0"\nUCX_TLS=rc\nEDITOR=vi\n'},
        {"/etc/apt/sources.list": ""},
    ],
)
def test_what_no_training_notices_does_not_change_the_digest(files, gpu_server, collected, plant_files):
    plant_files(files)

    assert manifest.collect(gpu_server, None)["digest"] == collected["digest"]


@pytest.mark.parametrize(
    "files",
    [
        {"/proc/sys/kernel/osrelease": "5.15.0-131-generic\n"},
        {"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Mon\n"},
        {"/sys/bus/pci/devices/0000:2a:00.0/vendor": "0xffff\n"},
        {"/etc/environment": "NCCL_IB_HCA=mlx5_1\n"},
        {"/etc/nccl.conf": "NCCL_DEBUG=INFO\n"},
        {"/etc/security/limits.d/90-x.conf": "* - memlock unlimited\n"},
        {"/proc/sys/vm/swappiness": "10\n"},
        {"/etc/os-release": "ID=ubuntu\nVERSION_ID=24.04\n"},
        {"/var/lib/dpkg/status": "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36\n"},
    ],
)
def test_what_a_training_notices_changes_the_digest(files, gpu_server, collected, plant_files):
    plant_files(files)

    changed = manifest.collect(gpu_server, None)
    assert changed["digest"] not in {None, collected["digest"]}


def test_an_unknown_part_takes_the_digest_away(gpu_server, root):
    (root / "var/lib/dpkg/status").unlink()

    unknown = manifest.collect(gpu_server, None)
    assert unknown["digest"] is None
    assert unknown["packages_of_training"] is None
    assert {"packages", "packages_of_training"} == {entry["part"] for entry in unknown["problems"]}


def test_an_unknown_part_outside_the_digest_does_not(gpu_server, root):
    (root / "proc/cmdline").unlink()

    assert manifest.collect(gpu_server, None)["digest"] is not None


@pytest.mark.parametrize(
    "files",
    [
        {"/etc/machine-id": "00000000000040008000000000000009\n"},
        {"/sys/class/dmi/id/product_uuid": "00000000-0000-4000-8000-000000000009\n"},
    ],
)
def test_another_machine_in_the_same_state_has_the_same_digest_and_another_identity(
    files, gpu_server, collected, plant_files
):
    plant_files(files)

    another = manifest.collect(gpu_server, None)
    assert another["digest"] == collected["digest"]
    assert another["machine"] not in {None, collected["machine"]}


@pytest.mark.parametrize("content", ["", "uninitialized\n"])
def test_machine_without_an_identity_is_not_taken_for_another_one(content, gpu_server, plant_files):
    plant_files({"/etc/machine-id": content})

    nameless = manifest.collect(gpu_server, None)
    assert nameless["machine"] is None
    assert "machine" in {entry["part"] for entry in nameless["problems"]}


@pytest.mark.parametrize(
    ("name", "relevant"),
    [
        ("libc6", True),
        ("libssl3", True),
        ("python3", True),
        ("python3.11-minimal", True),
        ("libpython3.11-stdlib", True),
        ("python3-apt", False),
        ("nvidia-driver-580", True),
        ("libnvidia-compute-580", True),
        ("libnccl2", True),
        ("cuda-toolkit-12-8", True),
        ("libibverbs1", True),
        ("ibverbs-providers", True),
        ("rdma-core", True),
        ("libcurl4", False),
        ("curl", False),
        ("tzdata", False),
        ("libc6-dev", False),
    ],
)
def test_relevant_packages(name, relevant):
    assert bool(manifest.RELEVANT_PACKAGES.fullmatch(name)) is relevant


@pytest.mark.parametrize("request_", [{}, {"environment": "relative"}, {"environment": 3}, {"environment": ""}])
def test_bad_request(request_):
    with pytest.raises(Refusal):
        manifest.answer(request_)


@pytest.fixture
def environment(tmp_path):
    import sys
    import venv

    path = tmp_path / "env"
    venv.create(path, symlinks=True, with_pip=False)
    site = path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    add_distribution(site, "Some_Thing", "1.0")
    (site / "torch").mkdir()
    (site / "torch" / "version.py").write_text(
        "from typing import Optional\n__version__ = '2.9.1+cu128'\ndebug = False\ncuda: Optional[str] = '12.8'\n"
        "raise RuntimeError('nothing of the environment may be run')\n"
    )
    return path, site


def add_distribution(site, name, version, record="x,,\n"):
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nName: in the text\n")
    (info / "RECORD").write_text(record)
    return info


def test_python_environment(environment):
    import platform

    path, _ = environment
    found = python_packages.describe(path)

    assert found["path"] == str(path)
    assert found["python"] == platform.python_version()
    assert found["distributions"] == {"some-thing": "1.0"}
    assert found["torch"] == {"version": "2.9.1+cu128", "cuda": "12.8"}


def test_every_file_list_counts_for_the_digest(environment):
    path, site = environment
    before = python_packages.describe(path)["records_sha256"]
    add_distribution(site, "other", "2")
    more = python_packages.describe(path)["records_sha256"]
    (site / "other-2.dist-info" / "RECORD").write_text("y,,\n")
    changed = python_packages.describe(path)["records_sha256"]

    assert len({before, more, changed}) == 3


@pytest.mark.parametrize("broken", ["no-interpreter", "no-record", "twice", "no-environment"])
def test_broken_environment_is_unknown_and_takes_the_digest_away(environment, broken, gpu_server):
    path, site = environment
    if broken == "no-interpreter":
        (path / "bin" / "python").unlink()
    elif broken == "no-record":
        (site / "Some_Thing-1.0.dist-info" / "RECORD").unlink()
    elif broken == "twice":
        add_distribution(site, "some.thing", "2.0")
    else:
        path = path / "nowhere"

    found = manifest.collect(gpu_server, path)
    assert found["python_environment"] is None
    assert found["digest"] is None


def test_real_machine_has_a_digest():
    found = manifest.collect(Host(), None)

    assert found["problems"] == []
    assert found["digest"] == manifest.collect(Host(), None)["digest"]
