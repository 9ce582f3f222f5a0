from types import SimpleNamespace

import pytest


@pytest.fixture
def shared_memory(load_plugin, monkeypatch):
    module = load_plugin("modules/shared_memory")
    monkeypatch.setattr(module, "live_bytes", lambda: 1 << 30)
    return module


def apply(module, size):
    return module.apply(SimpleNamespace(params={"size": size}, check_mode=True))


def test_nothing_is_to_do_at_the_wanted_size(shared_memory):
    assert apply(shared_memory, "1G") == {"changed": False, "size_bytes": 1 << 30, "changes": []}


def test_another_size_is_told_with_both_numbers(shared_memory):
    result = apply(shared_memory, "2G")

    assert result["changed"] is True
    assert result["changes"] == [f"{shared_memory.MOUNT_POINT}: {2 << 30} bytes (was {1 << 30})"]


def test_what_is_no_size_is_refused(shared_memory):
    with pytest.raises(shared_memory.RefusalError) as caught:
        apply(shared_memory, "64 gigabytes")

    assert "64 gigabytes" in caught.value.found
