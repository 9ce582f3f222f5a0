"""`manifest`: what a host or an image reports to have. docs/reference/manifest.md describes the answer."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ironlease_node import dpkg, python_packages, self_file
from ironlease_node.host import Host, Problems, Unreadable
from ironlease_node.probe import kernel, pci, system
from ironlease_node.refusal import Refusal
from ironlease_node.text import canonical_json, sha256_of, utc_now

SCHEMA = "ironlease.manifest/1"

# Packages whose code a training runs through; a newer time zone table does not make its evidence old.
RELEVANT_PACKAGES = re.compile(
    # The C and Python runtimes under the environment's interpreter.
    r"libc6|libgcc-s1|libgomp1|libnuma1|libssl\d.*|libstdc\+\+6"
    r"|(lib)?python3(\.\d+)?(-minimal|-stdlib|-venv)?"
    # The vendor's libraries and tools.
    r"|(lib)?(cuda|cudnn|cublas|cufft|curand|cusolver|cusparse|nccl|nvidia).*|datacenter-gpu-manager.*"
    # Whatever carries the traffic between GPUs.
    r"|(lib)?(ibverbs|mlx|rdmacm|ucx|ucp|openmpi).*|doca.*|mlnx.*|rdma-core"
)
# Everything that the limits and the kernel parameters come from at the next boot or login.
SETTINGS_FOLDERS = ("/etc/security/limits.d", "/etc/sysctl.d", "/etc/modprobe.d")
SETTINGS_FILES = ("/etc/nccl.conf", "/etc/security/limits.conf", "/etc/sysctl.conf")
# None whose default the kernel derives from the memory that happened to be free at boot (fs.file-max).
SYSCTL_NAMES = (
    "kernel.numa_balancing",
    "kernel.shmall",
    "kernel.shmmax",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "vm.max_map_count",
    "vm.nr_hugepages",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
)
ENVIRONMENT_FILE = "/etc/environment"
# Only names with these beginnings are reported, and none that sounds like a secret.
ENVIRONMENT_NAMES = re.compile(r"^(ASCEND|CUDA|GLOO|HCCL|MKL|NCCL|NVIDIA|OMP|PYTORCH|TORCH|UCX)_[A-Z0-9_]+$")
SECRET_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH")


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return `ironlease.manifest/1`; `environment` of the request is the folder of a Python environment, or null.

    Raises Refusal.
    """
    path = request.get("environment")
    if "environment" not in request or not (path is None or (isinstance(path, str) and path.startswith("/"))):
        raise Refusal(
            code="bad-input",
            found="The request names no `environment`.",
            needed="`environment`: the absolute path of a Python environment, or null.",
            next_step="echo '{\"environment\": null}' | python3 agent.pyz manifest",
        )
    return collect(Host(), None if path is None else Path(path))


def collect(host: Host, environment: Path | None) -> dict[str, Any]:
    """Return the manifest of ``host``. Its digest is None when a part that it covers is not known."""
    problems = Problems()
    digested = {name: _part(name, read, problems) for name, read in _digested_parts(host, environment).items()}
    others = {name: _part(name, read, problems) for name, read in _other_parts(host).items()}
    is_whole = not problems.names() & set(digested)
    return {
        "schema": SCHEMA,
        "agent": self_file.describe(),
        "collected_at": utc_now(),
        **digested,
        **others,
        "digested": sorted(digested),
        "digest": sha256_of(canonical_json(digested)) if is_whole else None,
        "problems": problems.entries,
    }


def _digested_parts(host: Host, environment: Path | None) -> dict[str, Callable[[], Any]]:
    """What decides whether a training that ran here would run the same again."""
    return {
        "accelerators": lambda: _accelerators(host),
        "environment_variables": lambda: parse_environment(host.optional_text(ENVIRONMENT_FILE) or ""),
        "kernel": lambda: {
            "architecture": host.architecture,
            "release": host.text("/proc/sys/kernel/osrelease").strip(),
        },
        "nvidia_driver": lambda: kernel.nvidia_driver(host),
        "os": lambda: _os(host),
        "packages_of_training": lambda: {
            name: version for name, version in dpkg.read(host).installed().items() if RELEVANT_PACKAGES.fullmatch(name)
        },
        "python_environment": lambda: None if environment is None else python_packages.describe(environment),
        "settings_files": lambda: _settings_files(host),
        "sysctl": lambda: {
            name: " ".join(value.split())
            for name in SYSCTL_NAMES
            if (value := host.line("/proc/sys/" + name.replace(".", "/"))) is not None
        },
    }


def _other_parts(host: Host) -> dict[str, Callable[[], Any]]:
    """What a reader wants to know, and what may change without a training noticing."""
    return {
        "boot_id": lambda: host.text("/proc/sys/kernel/random/boot_id").strip(),
        "hostname": lambda: system.read_name(host),
        "kernel_command_line": lambda: host.text("/proc/cmdline").strip(),
        "machine": lambda: _machine(host),
        "packages": lambda: dpkg.read(host).installed(),
    }


def _part(name: str, read: Callable[[], Any], problems: Problems) -> Any:
    try:
        return read()
    except Unreadable as error:
        problems.add(name, error)
    except Exception as error:  # noqa: BLE001 - a part that meets what nobody foresaw must not cost the others
        problems.add(name, f"crash of the manifest's own: {error!r}")
        traceback.print_exc()
    return None


def _machine(host: Host) -> str:
    """Return what no other machine returns, however alike they were installed: hashed, for the parts are confidential.

    systemd makes the one at the first boot, the firmware has the other; an image that was cloned carelessly still
    differs in the second. Raises Unreadable.
    """
    machine_id = host.text("/etc/machine-id").strip()
    if re.fullmatch(r"[0-9a-f]{32}", machine_id) is None:
        raise Unreadable("/etc/machine-id holds no identity")
    product_uuid = host.line("/sys/class/dmi/id/product_uuid")
    return sha256_of(canonical_json({"machine_id": machine_id, "product_uuid": product_uuid}))


def _os(host: Host) -> dict[str, Any]:
    release = system.parse_os_release(host.text("/etc/os-release"))
    return {"id": release.get("ID"), "version_id": release.get("VERSION_ID")}


def _accelerators(host: Host) -> dict[str, int]:
    """Return how many of each model there are. A machine without a PCI bus has none that this project knows."""
    if not host.path(pci.DEVICES_FOLDER).is_dir():
        return {}
    models: dict[str, int] = {}
    for device in pci.pci_devices(host)["accelerators"]:
        model = f"{device['vendor']}:{device['device']}"
        models[model] = models.get(model, 0) + 1
    return dict(sorted(models.items()))


def _settings_files(host: Host) -> dict[str, str]:
    paths = [f"{folder}/{name}" for folder in SETTINGS_FOLDERS for name in host.names(folder) if name.endswith(".conf")]
    digests = {}
    for path in sorted([*SETTINGS_FILES, *paths]):
        try:
            digests[path] = sha256_of(host.path(path).read_bytes())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Unreadable(f"{path}: {error.strerror}") from error
    return digests


def parse_environment(text: str) -> dict[str, str]:
    """Return the variables of /etc/environment that steer a training, and only those."""
    variables = {}
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        name = name.replace("export ", "", 1).strip()
        if separator and ENVIRONMENT_NAMES.match(name) and not SECRET_NAMES.search(name):
            variables[name] = value.strip().strip("\"'")
    return dict(sorted(variables.items()))
