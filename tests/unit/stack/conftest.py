"""A small valid stack that each test bends."""

from __future__ import annotations

from typing import Any

import pytest

from ironlease.stack.model import Stack

SHA256 = "0" * 64


def python_package(name: str, version: str) -> dict[str, Any]:
    return {"name": name, "version": version, "sha256": [SHA256], "download_bytes": 1, "installed_bytes": 1}


def nvidia_stack() -> dict[str, Any]:
    return {
        "schema": "ironlease.stack/1",
        "name": "bent",
        "title": "A stack for tests",
        "description": "Nothing real",
        "accelerator": "nvidia",
        "architecture": "x86_64",
        "tested": [],
        "not_tested": [],
        "distributions": [
            {"id": "debian", "release": "12", "python": "/usr/bin/python3.11", "apt": {"pytorch": ["python3.11-venv"]}}
        ],
        "nvidia": {
            "cuda": "12.8",
            "repository": {
                "url": "https://packages.example/{distribution}/",
                "distributions": {"debian-12": "debian12"},
                "key_url": "key.pub",
                "key_fingerprint": "A" * 40,
            },
            "driver": {"version": "580.65.06", "kernel_module": "open", "packages": [{"name": "nvidia-open"}]},
            "fabric_manager": {"version": "580.65.06", "packages": [{"name": "nvidia-fabricmanager"}]},
            "toolkit": {"version": "12.8", "packages": [{"name": "cuda-toolkit-12-8"}]},
            "nccl": {"version": "2.27.5-1", "packages": [{"name": "libnccl2"}]},
        },
        "python": {
            "requires": ["torch==2.10.0"],
            "index_url": None,
            "cuda": "12.8",
            "compute_capabilities": ["7.0", "7.5", "8.0", "8.6", "9.0", "10.0", "12.0"],
            "ptx": None,
            "packages": [python_package("torch", "2.10.0")],
        },
        "baseline": {"processes": 2, "backend": "nccl"},
    }


def bend(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Set the dotted keys of ``changes``; a value of ... removes the key."""
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        place: Any = document
        for step in parents:
            place = place[int(step) if step.isdecimal() else step]
        if value is ...:
            del place[last]
        else:
            place[last] = value
    return document


@pytest.fixture
def make_document():
    return lambda changes=None: bend(nvidia_stack(), changes or {})


@pytest.fixture
def make_stack(make_document):
    return lambda changes=None: Stack.model_validate(make_document(changes))
