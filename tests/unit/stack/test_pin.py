"""The tool that writes pins: what it asks uv for, and what it writes."""

from __future__ import annotations

import http.server
import threading
import zipfile

import pytest

from ironlease.errors import UsageError
from ironlease.stack import pin


@pytest.fixture
def wheel(tmp_path):
    path = tmp_path / "made-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("made/__init__.py", "x = 1\n" * 1000)
        archive.writestr("made-1.0.dist-info/METADATA", "Name: made\n")
    return path


def test_the_command_names_interpreter_platform_and_places():
    command = pin.compile_command("3.10", None, ["/wheels"])

    assert command[command.index("--python-version") + 1] == "3.10"
    assert command[command.index("--find-links") + 1] == "/wheels"
    assert ":all:" in command[command.index("--only-binary") + 1]
    assert "--extra-index-url" not in command


def test_the_stacks_own_index_is_asked_unless_wheels_were_given():
    assert "https://wheels.example" in pin.compile_command("3.11", "https://wheels.example", [])
    assert "https://wheels.example" not in pin.compile_command("3.11", "https://wheels.example", ["/wheels"])


def test_the_oldest_interpreter_chooses_and_the_wheels_of_all_are_kept(monkeypatch):
    answers = {
        "3.10": [{"name": "made", "version": "1.0", "wheels": [wheel_entry("made-1.0-cp310.whl", "a")]}],
        "3.12": [{"name": "made", "version": "1.0", "wheels": [wheel_entry("made-1.0-cp312.whl", "b")]}],
    }
    asked = []

    def run_uv(command, requires, constraints):
        asked.append(constraints)
        return {"packages": answers[command[command.index("--python-version") + 1]]}

    monkeypatch.setattr(pin, "_run_uv", run_uv)

    (made,) = pin.resolve(["made"], ["3.10", "3.12"], None, [])

    assert asked == [[], ["made==1.0"]]
    assert sorted(made.wheels) == ["made-1.0-cp310.whl", "made-1.0-cp312.whl"]


def test_a_package_without_a_wheel_is_refused(monkeypatch):
    monkeypatch.setattr(pin, "_run_uv", lambda *_: {"packages": [{"name": "made", "version": "1.0"}]})

    with pytest.raises(UsageError, match=r"no wheel for Python 3\.11"):
        pin.resolve(["made"], ["3.11"], None, [])


def test_only_the_block_between_the_markers_changes(wheel):
    made = pin.Pin("made", "1.0", {wheel.name: ("f" * 64, wheel.as_uri())})
    text = f"before: 1\n{pin.BEGIN}\n  packages: old\n{pin.END}\nafter: 2\n"

    replaced = pin.replace_block(text, pin.render([made]))

    assert replaced.startswith(f"before: 1\n{pin.BEGIN}\n  packages:\n    - name: made\n")
    assert replaced.endswith(f"        - {'f' * 64} # {wheel.name}\n{pin.END}\nafter: 2\n")
    assert "old" not in replaced


def test_a_file_without_markers_is_refused():
    with pytest.raises(UsageError, match="no marker lines"):
        pin.replace_block("python:\n", [])


def test_sizes_of_a_local_wheel(wheel):
    assert pin.wheel_sizes(wheel.as_uri()) == (wheel.stat().st_size, 6011)


def test_sizes_of_a_remote_wheel_without_reading_all_of_it(wheel):
    served = RangeServer(wheel.read_bytes())
    with served:
        assert pin.wheel_sizes(served.url) == (wheel.stat().st_size, 6011)

    assert served.ranges


class RangeServer:
    """Serves one file on the loopback, with ranges as package indexes have them."""

    def __init__(self, content: bytes) -> None:
        self.ranges: list[str] = []
        ranges = self.ranges

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self):
                self.answer(200, content, with_body=False)

            def do_GET(self):
                ranges.append(self.headers["Range"])
                first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
                self.answer(206, content[int(first) : int(last) + 1], with_body=True)

            def answer(self, status, body, *, with_body):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if with_body:
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/made.whl"

    def __enter__(self) -> RangeServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def wheel_entry(name: str, sha256: str) -> dict[str, object]:
    return {"url": f"https://files.example/{name}", "hashes": {"sha256": sha256 * 64}}
