"""One worker at a time."""

import subprocess
import sys
import threading
import time

import pytest

from ironlease.lab.errors import LabError
from ironlease.lab.locks import exclusive


def silent(_):
    pass


def test_the_second_waits_and_says_for_whom(tmp_path):
    order, said = [], []

    def second():
        with exclusive(tmp_path / "lock", 10, said.append):
            order.append("second")

    with exclusive(tmp_path / "lock", 1, silent):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]
    assert len(said) == 1
    assert "process" in said[0]


def test_waiting_has_a_limit(tmp_path):
    with (
        exclusive(tmp_path / "lock", 1, silent),
        pytest.raises(LabError) as refused,
        exclusive(tmp_path / "lock", 0.2, silent),
    ):
        pytest.fail("two holders")

    assert refused.value.code == "lab-busy"


def test_a_killed_holder_holds_nothing(tmp_path):
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom ironlease.lab.locks import exclusive\n"
        "with exclusive(Path(sys.argv[1]), 1, print):\n    print('held', flush=True)\n    time.sleep(60)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate(timeout=10)

    with exclusive(tmp_path / "lock", 1, silent):
        pass


def test_nothing_is_left_afterwards(tmp_path):
    with exclusive(tmp_path / "folder" / "lock", 1, silent):
        pass

    assert list(tmp_path.iterdir()) == []


def test_many_at_once_never_overlap(tmp_path):
    inside, overlaps, rounds = [], [], 20

    def work():
        for _ in range(rounds):
            with exclusive(tmp_path / "folder" / "lock", 30, silent):
                inside.append(1)
                overlaps.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert overlaps == [1] * (3 * rounds)
