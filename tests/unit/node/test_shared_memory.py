import os
from pathlib import Path

import pytest

from ironlease_node import observe, shared_memory
from ironlease_node.host import Host
from ironlease_node.tools import Runner


@pytest.mark.parametrize(
    ("size", "expected"),
    [("1", 1), ("4096", 4096), ("3k", 3 << 10), ("256M", 256 << 20), ("64g", 64 << 30)],
)
def test_sizes_are_read_as_mount_reads_them(size, expected):
    assert shared_memory.wanted_bytes(size) == expected


def test_a_percentage_is_one_of_the_memory():
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    assert shared_memory.wanted_bytes("80%") == memory * 80 // 100


@pytest.mark.parametrize("size", ["", "0", "-1", "64 GB", "1T", "G", "5%%"])
def test_anything_else_is_no_size(size):
    with pytest.raises(ValueError, match="not a size"):
        shared_memory.wanted_bytes(size)


def test_a_folder_that_is_no_mount_point_has_no_size(tmp_path):
    with pytest.raises(OSError, match="no mount point"):
        shared_memory.live_bytes(tmp_path)


@pytest.mark.parametrize(("more", "expected"), [(0, True), (65535, True), (65536, False), (-65536, False)])
def test_the_kernels_rounding_is_no_difference(more, expected):
    assert shared_memory.is_size((1 << 30) + more, 1 << 30) is expected


def observed(size_bytes):
    # Any mount point will do, and only this one is everywhere.
    thing = {"kind": "mount_size", "path": "/", "size_bytes": size_bytes}
    answer = observe.observe({"schema": observe.FOOTPRINT_SCHEMA, "things": [thing]}, Host(Path("/")), Runner())
    return answer["differences"]


def test_the_observer_compares_the_live_size():
    live = shared_memory.live_bytes(Path("/"))

    assert observed(live) == []
    (difference,) = observed(live * 2)
    assert (difference["state"], difference["found"]) == ("differs", {"size_bytes": live})
