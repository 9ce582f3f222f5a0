"""The kernel's table of mounts."""

from pathlib import Path

from ironlease.lab.mounts import parse_mountinfo

# Debian 12 with the hybrid control group layout, 2026-11; the last two lines are a bound namespace and a folder with a
# blank in its name.
TABLE = """\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
31 30 0:29 / /sys/fs/cgroup/unified rw,relatime shared:9 master:2 - cgroup2 cgroup2 rw
32 30 0:30 / /sys/fs/cgroup/cpu ro,relatime - cgroup cgroup rw,cpu
80 27 0:4 net:[4026532281] /run/ironlease/lab/x/net/lab rw - nsfs nsfs rw
81 27 254:0 /srv /mnt/my\\040files ro - ext4 /dev/vda rw
"""


def test_mounts_are_read_with_their_kind_and_mode():
    mounts = {str(mount.point): (mount.kind, mount.writable) for mount in parse_mountinfo(TABLE)}

    assert mounts == {
        "/": ("ext4", True),
        "/sys/fs/cgroup/unified": ("cgroup2", True),
        "/sys/fs/cgroup/cpu": ("cgroup", False),
        "/run/ironlease/lab/x/net/lab": ("nsfs", True),
        "/mnt/my files": ("ext4", False),
    }


def test_points_are_paths():
    assert parse_mountinfo(TABLE)[-1].point == Path("/mnt/my files")
