"""How a training is started, ended and read, with a program in torchrun's place."""

from __future__ import annotations

import json
import os
import pwd
import sys
import time
import venv
from pathlib import Path

import pytest

from ironlease_node import baseline
from ironlease_node.baseline import launch
from ironlease_node.refusal import Refusal

USER = "nobody"
SYSTEM_PYTHON = "/usr/bin/python3"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user, which only root can")

# Reports what a good training reports. Each test may put a line of its own before the end of each phase.
TORCHRUN = """#!{python}
import json, os, sys, time
arguments = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
phase, folder = arguments["phase"], arguments["folder"]
report = {{
    "losses": [1.0] * 5 + [0.1] * 5, "continued": [0.1, 0.09], "checksum_at_checkpoint": "aa", "ranks_agree": True,
    "bit_equal_expected": True, "world_size": 2, "uid": os.getuid(),
}}
if phase == "train":
    with open(folder + "/checkpoint.pt", "wb") as handle:
        handle.write(b"checkpoint")
report_path = folder + "/" + phase + ".json"
{line}
with open(report_path, "w") as handle:
    json.dump(report, handle)
print("the end of", phase)
"""


@pytest.fixture
def account():
    # Whoever runs the tests; becoming another user is tested on its own, and with the real training.
    entry = pwd.getpwuid(os.geteuid())
    return launch.Account(entry.pw_name, entry.pw_uid, entry.pw_gid, [entry.pw_gid], switch=False)


@pytest.fixture
def train(tmp_path, account, monkeypatch):
    """Prove an environment whose torchrun is the program above with ``line`` in it."""

    def run(line="", time_limit_seconds=30, torch=True):
        path = tmp_path / "env"
        venv.create(path, symlinks=True, with_pip=False)
        site = path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        if torch:
            (site / "torch").mkdir()
            (site / "torch" / "version.py").write_text("__version__ = '0'\n")
        program = path / "bin" / "torchrun"
        program.write_text(TORCHRUN.format(python=path / "bin" / "python", line=line))
        program.chmod(0o755)
        training = baseline.Training(path, account, 2, time_limit_seconds)
        evidence = training.prove()
        assert not training.folder.exists()
        return evidence

    # Root may be the one who runs these tests, and `unprivileged` is looked at elsewhere.
    monkeypatch.setattr(
        "ironlease_node.baseline.judge.judge",
        lambda train, resume, uid, real=baseline.judge.judge: [
            check for check in real(train, resume, uid) if check.name != "unprivileged"
        ],
    )
    return run


def test_good_reports_pass(train, account):
    evidence = train()

    assert evidence["verdict"] == "pass", evidence
    assert evidence["reason"] is None
    assert evidence["log_tail"] is None
    assert evidence["user"] == account.name
    assert evidence["checkpoint"]["size_bytes"] == len(b"checkpoint")
    assert {check["verdict"] for check in evidence["checks"]} == {"pass"}
    assert set(evidence["seconds"]) == {"train", "resume", "total"}


@pytest.mark.parametrize(
    ("line", "verdict", "reason"),
    [
        ("sys.exit('no such device')", "fail", "phase train: it ended with exit status 1"),
        ("phase == 'resume' and sys.exit(3)", "fail", "phase resume: it ended with exit status 3"),
        ("os.kill(os.getpid(), 9)", "unknown", "phase train: it was killed by signal 9"),
        ("sys.exit(0)", "unknown", "the training ended and left no train.json"),
        ("os.unlink(folder + '/checkpoint.pt')", "unknown", "the training ended and left no checkpoint.pt"),
        ("report = 'text'", "unknown", "its report is no JSON object"),
        ("report = {}", "unknown", "a report is not as the training writes it: KeyError('losses')"),
        ("report['losses'] = None", "unknown", "a report is not as the training writes it: TypeError"),
        ("report['losses'] = [1.0] * 10", "fail", "learns: "),
        ("report['ranks_agree'] = False", "fail", "ranks-agree: "),
        ("report['checksum_at_checkpoint'] = phase", "fail", "checkpoint-whole: "),
        ("report['continued'] = [0.1, 0.09 if phase == 'train' else 0.08]", "fail", "continues: "),
    ],
)
def test_each_way_to_go_wrong(train, line, verdict, reason):
    evidence = train(line)

    assert evidence["verdict"] == verdict
    assert reason in evidence["reason"]
    assert evidence["log_tail"] is not None


def test_a_report_that_is_not_json(train):
    assert "is not JSON" in train("open(report_path, 'w').write('{'); sys.exit(0)")["reason"]


def test_end_of_the_log_is_kept_for_the_reader(train):
    evidence = train("print('x' * 10000); sys.exit('CUDA error at http://u:pw@example.com')")

    assert evidence["log_tail"].rstrip().endswith("CUDA error at http://example.com")
    assert len(evidence["log_tail"]) <= launch.LOG_TAIL_CHARACTERS


def test_a_link_in_the_place_of_a_report_is_not_followed(train, tmp_path):
    (tmp_path / "private").write_text(json.dumps({"secret": "abcd"}))

    evidence = train(f"os.symlink('{tmp_path}/private', report_path); sys.exit(0)")

    assert evidence["verdict"] == "unknown"
    assert evidence["train"] is None
    assert "abcd" not in json.dumps(evidence)


@pytest.mark.parametrize("line", ["os.mkfifo(report_path); sys.exit(0)", "os.mkdir(report_path); sys.exit(0)"])
def test_strange_things_in_the_place_of_a_report_do_not_hang(train, line):
    assert train(line)["verdict"] == "unknown"


def test_hanging_training_is_ended_with_all_its_workers(train, tmp_path, is_gone):
    pid_file = tmp_path / "worker"
    started = time.monotonic()

    evidence = train(
        "import subprocess, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "worker = subprocess.Popen(['sleep', '60'], start_new_session=True);"
        f"open('{pid_file}', 'w').write(str(worker.pid)); time.sleep(60)",
        time_limit_seconds=2,
    )

    assert evidence["verdict"] == "unknown"
    assert evidence["reason"] == "phase train: it was ended at its time limit"
    assert time.monotonic() - started < 20
    assert is_gone(int(pid_file.read_text()))


def test_without_torch_nothing_is_known(train):
    evidence = train(torch=False)

    assert evidence["verdict"] == "unknown"
    assert evidence["reason"].startswith("torch is not installed in ")


def test_without_torchrun_or_environment_nothing_is_known(train, tmp_path, account):
    train()
    (tmp_path / "env" / "bin" / "torchrun").unlink()
    without_program = baseline.Training(tmp_path / "env", account, 2, 30).prove()
    without_environment = baseline.Training(tmp_path / "nowhere", account, 2, 30).prove()

    assert without_program["verdict"] == without_environment["verdict"] == "unknown"
    assert "cannot be started" in without_program["reason"]
    assert "nowhere" in without_environment["reason"]


def test_the_training_gets_nothing_of_the_callers_environment(train, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "abcd")
    monkeypatch.setenv("LD_PRELOAD_X", "abcd")
    seen = tmp_path / "environment"

    train(f"open('{seen}', 'w').write(json.dumps(dict(os.environ)))")

    variables = json.loads(seen.read_text())
    assert "abcd" not in variables.values()
    assert variables["OMP_NUM_THREADS"] == "1"
    assert variables["GLOO_SOCKET_IFNAME"] == "lo"
    assert variables["HOME"].endswith("/run")


def test_the_ranks_meet_on_loopback():
    command = launch.build_command(Path("/opt/e"), 4, Path("/x/ddp.py"), ["--phase=train"])

    assert command == [
        "/opt/e/bin/torchrun",
        "--standalone",
        "--local-addr=127.0.0.1",
        "--nproc-per-node=4",
        "--max-restarts=0",
        "/x/ddp.py",
        "--phase=train",
    ]


@pytest.fixture
def more_groups():
    """Root with supplementary groups, as most logins have them."""
    before = os.getgroups()
    os.setgroups([0, 1, 4])
    yield
    os.setgroups(before)


@needs_root
@pytest.mark.usefixtures("more_groups")
def test_another_user_is_become_with_its_own_groups_and_no_more(tmp_path):
    entry = pwd.getpwnam(USER)
    folder = tmp_path / "open"
    folder.mkdir()
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    log = tmp_path / "log"
    script = "import os; print(os.getresuid(), os.getresgid(), sorted(os.getgroups()))"

    ending = launch.run(
        [SYSTEM_PYTHON, "-c", script],
        variables={},
        account=launch.find_account(USER),
        folder=folder,
        log=log,
        timeout_seconds=10,
    )

    uid, gid = entry.pw_uid, entry.pw_gid
    assert ending.status == 0
    assert log.read_text().strip() == f"{(uid,) * 3} {(gid,) * 3} {sorted(os.getgrouplist(USER, gid))}"


@pytest.mark.parametrize("name", ["root", "no-such-user-here", "-x"])
def test_users_that_prove_nothing(name):
    with pytest.raises(Refusal) as caught:
        launch.find_account(name)

    assert caught.value.code == "bad-user"


def test_who_is_not_root_can_only_be_himself(monkeypatch):
    entry = pwd.getpwnam(USER)
    monkeypatch.setattr(os, "geteuid", lambda: entry.pw_uid)
    assert launch.find_account(USER).switch is False

    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with pytest.raises(Refusal, match="cannot become"):
        launch.find_account(USER)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"environment": "/opt/e"},
        {"environment": "/opt/e", "user": USER, "processes": 0},
        {"environment": "/opt/e", "user": USER, "processes": True},
        {"environment": "/opt/e", "user": USER, "processes": "2"},
        {"environment": "/opt/e", "user": USER, "time_limit_seconds": 99999},
    ],
)
def test_bad_requests(request_, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(Refusal):
        baseline.answer(request_)
