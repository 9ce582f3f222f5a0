"""What every role promises, read from its files.

A failure that a role or one of our modules foresees has three parts, each at the beginning of a line of the message
(``fail_msg`` of an assertion, ``msg`` of a module), and may go on over further lines:

    Found: what was found
    Needed: what is needed
    Next: what to do next

One message may hold several of these blocks, one after the other; a line before the first is for people only.
``ironlease.diagnose`` reads them back.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ironlease.footprint import INERT_MODULES, OBSERVED_MODULES

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir() if path.is_dir())
TASK_FILES = sorted((ROOT / "roles").glob("*/tasks/*.yml")) + sorted((ROOT / "roles").glob("*/handlers/*.yml"))
ENTRY_FILES = ("preflight", "install", "configure", "verify")
# Whatever is no module among a task's keys.
TASK_KEYWORDS = {
    *("become", "changed_when", "check_mode", "failed_when", "loop", "name", "notify", "register"),
    *("timeout", "vars", "when"),
}
# They need a kernel or a running systemd, which a container build has not.
NEEDS_A_BOOTED_HOST = {"kernel_parameters", "shared_memory", "systemd", "systemd_service"}
# verify.yml alone may run a program, because nothing else shows that the thing works.
VERIFY_MODULES = {"command"}


def load(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def tasks_of(path):
    return load(path) or []


def module_of(task):
    (module,) = set(task) - TASK_KEYWORDS
    return module


def short(module):
    return module.rpartition(".")[2]


def relative(path):
    return str(path.relative_to(ROOT))


each_role = pytest.mark.parametrize("role", ROLES)
each_task_file = pytest.mark.parametrize("path", TASK_FILES, ids=relative)


def role_variables(role):
    """The inputs of a role: set ones, and those that stand there as a comment because they have no default."""
    text = (ROOT / "roles" / role / "defaults" / "main.yml").read_text(encoding="utf-8")
    return set(load(ROOT / "roles" / role / "defaults" / "main.yml") or {}) | set(re.findall(r"^# (\w+):$", text, re.M))


def specification(role):
    return load(ROOT / "roles" / role / "meta" / "argument_specs.yml")["argument_specs"]["main"]["options"]


def test_there_are_roles():
    assert {"host_preflight", "host_base", "node_tuning", "pytorch", "node_agent"} <= set(ROLES)


@each_role
def test_a_role_has_the_one_shape(role):
    folder = ROOT / "roles" / role

    for name in ("defaults/main.yml", "meta/argument_specs.yml", "meta/main.yml", "tasks/main.yml", "README.md"):
        assert (folder / name).is_file(), name
    names = {path.stem for path in (folder / "tasks").glob("*.yml")}
    assert {"preflight", "verify"} <= names
    assert names <= {"main", *ENTRY_FILES}


@each_role
def test_main_is_a_table_of_contents_in_order(role):
    tasks = tasks_of(ROOT / "roles" / role / "tasks" / "main.yml")
    imported = [Path(task["ansible.builtin.import_tasks"]).stem for task in tasks]
    present = [name for name in ENTRY_FILES[:3] if (ROOT / "roles" / role / "tasks" / f"{name}.yml").exists()]

    assert imported == present
    assert all(set(task) == {"name", "ansible.builtin.import_tasks"} for task in tasks)


@each_role
def test_defaults_and_specification_name_the_same_inputs(role):
    assert role_variables(role) == set(specification(role))


@each_role
def test_an_input_has_one_default_or_is_required(role):
    defaults = load(ROOT / "roles" / role / "defaults" / "main.yml") or {}

    for name, option in specification(role).items():
        assert option.get("required", False) == (name not in defaults), name
        assert option.get("default") == defaults.get(name), name
        assert option["description"], name


@each_role
def test_names_begin_with_the_role(role):
    assert all(name.startswith(f"{role}_") for name in role_variables(role))
    for path in (ROOT / "roles" / role).rglob("*.yml"):
        for name in re.findall(r"(?:register: |^\s+)(__\w+)(?::|$)", path.read_text(encoding="utf-8"), re.M):
            assert name.startswith(f"__{role}_"), (relative(path), name)


@each_role
def test_a_role_depends_on_no_other_and_reads_only_its_own_variables(role):
    assert load(ROOT / "roles" / role / "meta" / "main.yml")["dependencies"] == []
    foreign = [name for name in ROLES if name != role]
    for path in (ROOT / "roles" / role).rglob("*"):
        if path.suffix in {".yml", ".j2"} and path.parent.name != "meta":
            expressions = "\n".join(re.findall(r"\{\{.*?\}\}|\{%.*?%\}", path.read_text(encoding="utf-8"), re.DOTALL))
            read = re.findall(r"\b(?:" + "|".join(foreign) + r")_\w+|\bansible_facts\b|\bplan\b|\bstack\b", expressions)
            assert read == [], relative(path)


@each_task_file
def test_only_observable_or_inert_modules_are_used(path):
    allowed = OBSERVED_MODULES | INERT_MODULES | (VERIFY_MODULES if path.stem == "verify" else set())

    used = {short(module_of(task)) for task in tasks_of(path)}

    assert used <= allowed


@each_task_file
def test_a_handler_runs_right_after_the_task_that_notifies_it(path):
    # A play that is cut off before its end forgets its handlers, and the next run's task has nothing left to change.
    tasks = tasks_of(path)
    for task, following in zip(tasks, [*tasks[1:], {}], strict=True):
        if "notify" in task:
            assert following.get("ansible.builtin.meta") == "flush_handlers", task["name"]


@each_task_file
def test_a_task_is_named_after_its_file(path):
    if path.stem in ENTRY_FILES:
        assert all(task["name"].startswith(f"{path.stem} | ") for task in tasks_of(path))


@each_role
def test_preflight_only_asserts(role):
    tasks = tasks_of(ROOT / "roles" / role / "tasks" / "preflight.yml")

    assert {module_of(task) for task in tasks} == {"ansible.builtin.assert"}


@pytest.mark.parametrize(
    "path", [path for path in TASK_FILES if path.stem == "install" and path.parent.name == "tasks"], ids=relative
)
def test_install_works_without_kernel_and_systemd(path):
    for task in tasks_of(path):
        assert short(module_of(task)) not in NEEDS_A_BOOTED_HOST
        # A handler would have to talk to systemd.
        assert "notify" not in task


@pytest.mark.parametrize("path", [path for path in TASK_FILES if path.stem == "verify"], ids=relative)
def test_verify_changes_nothing_and_asserts_something(path):
    tasks = tasks_of(path)
    if path.parents[1].name == "host_preflight":
        # Its assertion is its verification.
        assert [task["ansible.builtin.import_tasks"] for task in tasks] == ["preflight.yml"]
        return

    assert any(module_of(task) == "ansible.builtin.assert" for task in tasks)
    for task in tasks:
        if module_of(task) == "ansible.builtin.command":
            assert task["changed_when"] is False
            assert task["timeout"] > 0
        elif module_of(task) != "ansible.builtin.assert":
            assert task["check_mode"] is True


@each_task_file
def test_every_assertion_fails_in_three_parts(path):
    for task in tasks_of(path):
        if module_of(task) == "ansible.builtin.assert":
            message = task["ansible.builtin.assert"]["fail_msg"]
            parts = [line.split(":")[0] for line in message.splitlines() if re.match(r"(Found|Needed|Next): \S", line)]
            assert parts == ["Found", "Needed", "Next"], task["name"]


@each_task_file
def test_nothing_is_waved_through(path):
    text = path.read_text(encoding="utf-8")

    assert "ignore_errors" not in text
    assert not re.search(r"failed_when: *(false|no)\b", text, re.I)


@each_task_file
def test_an_exception_has_its_reason_above_it(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if re.match(r"\s+(changed_when: false|check_mode:|failed_when:)", line):
            block = [entry.strip() for entry in lines[max(0, number - 4) : number]]
            assert any(entry.startswith("# ") for entry in block), f"{relative(path)}:{number + 1}"


@each_role
def test_no_version_is_written_in_a_role(role):
    for path in (ROOT / "roles" / role).rglob("*"):
        if path.is_file() and path.suffix != ".pyc" and path.parent.name != "meta":
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?<![\w.])\d+\.\d+\.\d+(?![\w.])|==\s*\d+\.\d", text), relative(path)


@each_role
def test_the_readme_says_what_a_reader_must_know(role):
    text = (ROOT / "roles" / role / "README.md").read_text(encoding="utf-8")

    assert text.startswith(f"# {role}\n")
    for heading in ("**Outcome.**", "**What it changes.**", "**Reboots.**", "**What it will not do.**", "## Variables"):
        assert heading in text, heading
    for name in role_variables(role):
        assert f"`{name}`" in text, name


def playbook_roles(name):
    (play,) = load(ROOT / "playbooks" / name)
    return [task for task in play["tasks"] if "ansible.builtin.import_role" in task]


@pytest.mark.parametrize("name", ["provision-node.yml", "verify-node.yml"])
def test_a_playbook_gives_every_required_input_and_no_unknown_one(name):
    for task in playbook_roles(name):
        role = task["ansible.builtin.import_role"]["name"]
        options = specification(role)
        assert set(task["vars"]) <= set(options)
        assert {key for key, option in options.items() if option.get("required")} <= set(task["vars"])


def test_both_playbooks_give_the_roles_the_same_values():
    given = [
        [(task["ansible.builtin.import_role"]["name"], task["vars"]) for task in playbook_roles(name)]
        for name in ("provision-node.yml", "verify-node.yml")
    ]

    assert given[0] == given[1]
    assert [role for role, _ in given[0]] == ["host_preflight", "host_base", "node_tuning", "pytorch", "node_agent"]


def test_what_modules_share_with_the_agent_is_one_file():
    links = sorted((ROOT / "plugins" / "module_utils" / "ironlease_node").glob("*.py"))

    assert {link.name for link in links} >= {"environment.py", "kernel_parameters.py", "dpkg.py"}
    assert all(link.is_symlink() and link.resolve() == ROOT / "src" / "ironlease_node" / link.name for link in links)


@pytest.mark.parametrize("name", ["apt_packages", "kernel_parameters", "python_environment", "shared_memory"])
def test_the_documentation_of_a_module_names_its_options(name):
    answer = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-doc"),
            "--json",
            "--module-path",
            str(ROOT / "plugins/modules"),
            name,
        ],
        capture_output=True,
        timeout=60,
        check=True,
    )
    documented = json.loads(answer.stdout)[name]["doc"]["options"]
    source = (ROOT / "plugins" / "modules" / f"{name}.py").read_text(encoding="utf-8")

    specified = re.findall(r'^            "(\w+)": \{', source, re.M)
    assert sorted(documented) == sorted(specified)
