from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.lab

ROLE = "pytorch"
BUILD = "install | Build the environment from the pins"
# The place that the plan gives it, so that test_whole_play.py finds it built.
ENVIRONMENT = "/opt/ironlease/envs/torch-cpu"


@pytest.fixture(scope="module")
def variables(machine, torch_packages):
    needed = machine.play("host_base", {"host_base_packages": ["python3-venv"]})
    assert needed.problems == []
    return {
        "pytorch_environment": ENVIRONMENT,
        "pytorch_packages": torch_packages,
        "pytorch_index_url": "https://download.pytorch.org/whl/cpu",
    }


@pytest.fixture(scope="module")
def first(machine, variables):
    """Check mode on the clean host, then the first run."""
    before = machine.state()
    checked = machine.play(ROLE, variables, check=True)
    after_check = machine.state()
    converged = machine.play(ROLE, variables)
    assert converged.problems == []
    return SimpleNamespace(before=before, checked=checked, after_check=after_check, converged=converged)


def test_check_mode_tells_what_is_missing_and_changes_nothing(first, variables):
    assert first.checked.problems == []
    assert first.checked.changed[BUILD] == [f"new, with {len(variables['pytorch_packages'])} packages"]
    assert first.after_check == first.before


def test_a_second_run_changes_nothing(first, machine, variables):
    outcome = machine.play(ROLE, variables)

    assert outcome.problems == []
    assert outcome.changed == {}


def test_verify_lets_torch_compute_as_a_user_without_rights(first, machine, variables):
    outcome = machine.play(ROLE, variables, entry="verify")

    assert outcome.problems == []
    assert '"solved": true' in outcome.result_of("verify | Assert that torch computes")["msg"]


def inside(machine, script):
    """Run a script in the environment's site-packages."""
    machine.shell(f"cd {ENVIRONMENT}/lib/python3*/site-packages; {script}")


def test_what_is_broken_is_mended_and_nothing_else_is_touched(first, machine, variables):
    inside(
        machine,
        f"""
        touch of-the-user.py
        truncate --size=9 filelock/__init__.py
        rm -r fsspec-*.dist-info
        rm jinja2-*.dist-info/RECORD
        cp -r markupsafe-*.dist-info markupsafe-0.dist-info
        rm mpmath/identification.py
        {ENVIRONMENT}/bin/python -m pip uninstall --quiet --yes typing-extensions
        """,
    )

    mended = machine.play(ROLE, variables)

    told = [change.split(":")[0] for change in mended.changed[BUILD]]
    assert told == ["filelock", "fsspec", "jinja2", "markupsafe", "mpmath", "typing-extensions"]
    assert machine.play(ROLE, variables).changed == {}
    inside(machine, "ls of-the-user.py")


def test_an_interpreter_that_is_gone_comes_back_without_a_new_build(first, machine, variables):
    machine.run("rm", f"{ENVIRONMENT}/bin/python")

    mended = machine.play(ROLE, variables)

    assert mended.changed[BUILD] == [f"interpreter: {ENVIRONMENT}/bin/python: No such file or directory"]
    assert machine.play(ROLE, variables).changed == {}
    inside(machine, "ls of-the-user.py")


def test_verify_sees_a_change_that_keeps_the_size(first, machine, variables):
    inside(machine, "cp --preserve mpmath/rational.py /root; tr a b < /root/rational.py > mpmath/rational.py")

    seen = machine.play(ROLE, variables, entry="verify")

    inside(machine, "cp --preserve /root/rational.py mpmath")
    assert [error.code for error in seen.errors] == ["refused"]
    assert "mpmath: 1 of" in seen.errors[0].found


def test_verify_sees_a_torch_that_does_not_compute(first, machine, variables):
    # Not a file of torch's: those are compared before torch is tried.
    inside(machine, "echo 'import sys; sys.modules[\"torch\"] = None' > broken.pth")

    seen = machine.play(ROLE, variables, entry="verify")

    inside(machine, "rm broken.pth")
    assert [error.code for error in seen.errors] == ["refused"]
    assert "torch says" in seen.errors[0].found


def test_an_environment_in_use_is_not_changed(first, machine, variables):
    program = f"{ENVIRONMENT}/bin/python -c 'import time; time.sleep(300)'"
    machine.shell(f"systemd-run --quiet --collect --unit=training {program}")
    inside(machine, "rm mpmath/identification.py")
    before = machine.state()

    refused = machine.play(ROLE, variables)
    after = machine.state()
    machine.shell("systemctl stop training")

    assert [error.code for error in refused.errors] == ["refused"]
    assert "in use by process" in refused.errors[0].found
    assert "time.sleep(300)" in refused.errors[0].found
    assert after == before
    assert BUILD in machine.play(ROLE, variables).changed


@pytest.mark.parametrize(
    "wrong",
    [
        {"pytorch_environment": "/opt"},
        {"pytorch_packages": [{"name": "numpy", "version": "1", "sha256": ["0" * 64]}]},
        {"pytorch_packages": [{"name": "torch", "version": "1", "sha256": ["abc"]}]},
        {"pytorch_packages": [{"name": "torch", "version": ">1", "sha256": ["0" * 64]}]},
        {"pytorch_environment": "/usr/share/doc"},
    ],
    ids=["shallow", "no-torch", "half-a-hash", "not-exact", "somebody-elses"],
)
def test_bad_input_is_refused_and_nothing_is_changed(first, machine, variables, wrong):
    before = machine.state()

    outcome = machine.play(ROLE, {**variables, **wrong})

    assert [error.code for error in outcome.errors] == ["refused"]
    assert machine.state() == before


def test_a_wheel_with_another_hash_is_not_installed(first, machine, variables, torch_packages):
    wrong = [{**package, "sha256": ["0" * 64]} for package in torch_packages if package["name"] == "torch"]
    path = "/opt/ironlease/envs/wrong"

    outcome = machine.play(ROLE, {**variables, "pytorch_environment": path, "pytorch_packages": wrong})

    assert [error.code for error in outcome.errors] == ["package-hash"]
    assert "Expected sha256 0000" in outcome.errors[0].found
    assert machine.shell(f"ls -d {path}/lib/python3*/site-packages/torch || true") == ""
