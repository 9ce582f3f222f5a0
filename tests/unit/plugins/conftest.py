"""Lets tests import our Ansible plugins as Ansible does: module_utils as a part of its own package."""

import importlib.util
import sys
from pathlib import Path

import ansible.module_utils
import pytest

PLUGINS = Path(__file__).resolve().parents[3] / "plugins"
ansible.module_utils.__path__.append(str(PLUGINS / "module_utils"))


@pytest.fixture(scope="session")
def load_plugin():
    """Return a function that imports one plugin file by its place below plugins/."""

    def load(place):
        name = f"ironlease_plugins_{place.replace('/', '_')}"
        if name not in sys.modules:
            spec = importlib.util.spec_from_file_location(name, PLUGINS / f"{place}.py")
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])
        return sys.modules[name]

    return load
