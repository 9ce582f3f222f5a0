import pytest
from ansible.module_utils.ironlease_node import kernel_parameters as reading
from ansible.module_utils.ironlease_support import RefusalError


@pytest.fixture
def kernel_parameters(load_plugin):
    return load_plugin("modules/kernel_parameters")


@pytest.fixture
def proc_sys(tmp_path, kernel_parameters, monkeypatch):
    """A folder in the place of /proc/sys; return a function that puts a parameter there."""
    monkeypatch.setattr(kernel_parameters, "path_of", lambda name: reading.path_of(name, tmp_path))

    def put(name, value):
        path = reading.path_of(name, tmp_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(value)
        return path

    return put


def test_values_become_texts_in_order(kernel_parameters):
    assert kernel_parameters.texts({"vm.swappiness": 1, "net.ipv4.tcp_rmem": "4096\t 131072 8388608 "}) == {
        "net.ipv4.tcp_rmem": "4096 131072 8388608",
        "vm.swappiness": "1",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("swappiness", 1),
        ("vm.swappiness; reboot", 1),
        ("vm/../../../etc/passwd", 1),
        ("vm.swappiness", ""),
        ("vm.swappiness", "1\nkernel.x = 2"),
        ("vm.swappiness", None),
        ("vm.swappiness", True),
        ("vm.swappiness", [1]),
    ],
)
def test_what_is_no_parameter_is_refused(kernel_parameters, name, value):
    with pytest.raises(RefusalError, match="Not a kernel parameter"):
        kernel_parameters.texts({name: value})


def test_the_file_has_one_line_for_each(kernel_parameters):
    assert kernel_parameters.render({"a.b": "1", "c.d": "2 3"}).endswith("overwritten.\na.b = 1\nc.d = 2 3\n")


def test_a_refused_value_puts_the_others_back(kernel_parameters, proc_sys, tmp_path):
    first, second = proc_sys("net.a", "1"), proc_sys("net.b", "2")
    second.unlink()
    second.mkdir()  # the kernel's refusal, as far as a folder can play it
    observations = [reading.Observation("net.a", "9", "1", None), reading.Observation("net.b", "9", "2", None)]

    with pytest.raises(RefusalError, match=r"The kernel refuses net.b = 9: Is a directory \(it is 2\)"):
        kernel_parameters.set_live(observations)

    assert first.read_text() == "1"


def test_a_value_that_the_kernel_changes_is_refused(kernel_parameters, proc_sys, monkeypatch):
    path = proc_sys("net.a", "1")
    monkeypatch.setattr(kernel_parameters, "_write_live", lambda name, value: path.write_text(f"{value}000"))

    with pytest.raises(RefusalError, match="it keeps 9000 instead"):
        kernel_parameters.set_live([reading.Observation("net.a", "9", "1", None)])
