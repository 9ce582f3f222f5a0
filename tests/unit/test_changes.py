from ironlease import changes
from ironlease.runner import TaskEvent


def event(module, *results, kind="ok"):
    return TaskEvent("h", kind, "role", "task", f"ansible.builtin.{module}", results=results)


def what(each):
    return [change.what for change in changes.of(each)]


APT = """Reading package lists...
The following additional packages will be installed:
  liba
The following NEW packages will be installed:
  chrony liba
  libb
The following packages will be upgraded:
  openssl
2 upgraded
"""


def test_apt_is_told_by_what_it_really_did():
    assert what(event("apt", {"changed": True, "stdout": APT})) == ["install chrony, liba, libb; upgrade openssl"]


def test_a_long_list_is_cut_and_counted():
    names = " ".join(f"p{number}" for number in range(20))
    stdout = f"The following NEW packages will be installed:\n  {names}\n"

    (line,) = what(event("apt", {"changed": True, "stdout": stdout}))

    assert line.endswith("p11 and 8 more")


def test_only_changed_results_count_each_on_its_own():
    results = [{"changed": True, "dest": "/a"}, {"changed": False, "dest": "/b"}, {"changed": True, "path": "/c"}]

    assert what(event("copy", *results)) == ["/a", "/c"]


def test_a_service_is_told_with_its_state():
    arguments = {"name": "chrony", "state": "started", "enabled": True}

    assert what(event("systemd_service", {"changed": True, "invocation": {"module_args": arguments}})) == [
        "chrony: started, enabled"
    ]


def test_modules_of_ours_list_their_own_changes():
    result = {"changed": True, "path": "/opt/e", "changes": ["install torch 2.13.0"]}

    assert what(event("python_environment", result)) == ["/opt/e: install torch 2.13.0"]

    tabs = {"changed": True, "path": "/etc/s", "changes": ["net.x = 1 2 (was 1\t2)"]}
    assert what(event("kernel_parameters", tabs)) == ["/etc/s: net.x = 1 2 (was 1 2)"]
    user = {"changed": True, "invocation": {"module_args": {"name": "ironlease"}}}
    assert what(event("user", user)) == ["user ironlease"]


def test_our_apt_module_tells_all_that_it_did():
    result = {"changed": True, "changes": ["dpkg --configure -a", "install chrony"]}

    (change,) = changes.of(event("apt_packages", result))

    assert (change.kind, change.what) == ("package", "dpkg --configure -a; install chrony")


def test_a_failed_task_changed_nothing_that_we_can_name():
    assert what(event("copy", {"changed": True, "dest": "/a"}, kind="failed")) == []
