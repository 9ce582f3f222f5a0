"""The agent's command line: a command's name, JSON on stdin, one JSON object on stdout, the log on stderr.

Exit status 0: the object is the answer. 2: the object is a refusal (``ironlease.refusal/1``). 70: a crash of ours, with
its traceback on stderr.
"""

from __future__ import annotations

import json
import sys
import traceback
from importlib import import_module
from typing import Any

from ironlease_node.refusal import Refusal

EXIT_OK = 0
EXIT_REFUSED = 2
EXIT_CRASH = 70

# Each module has `answer(request) -> object`. They are imported only when asked for: the modules of an archive are
# compiled at every start, and a command should pay for its own only.
COMMANDS = {
    "baseline": "ironlease_node.baseline",
    "hold": "ironlease_node.hold",
    "manifest": "ironlease_node.manifest",
    "observe": "ironlease_node.observe",
    "probe": "ironlease_node.probe",
    "snapshot": "ironlease_node.snapshot",
}
# `probe` asks nothing. `hold` takes one line, because its stdin stays open for as long as the lock is wanted.
WITHOUT_REQUEST = {"probe"}
ONE_LINE_REQUEST = {"hold"}


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if len(words) != 1 or words[0] not in COMMANDS:
            raise Refusal(
                code="bad-command",
                found=f"The agent was called with {len(words)} words and no command that it knows.",
                needed="One of: " + ", ".join(sorted(COMMANDS)) + ".",
                next_step="python3 agent.pyz probe",
            )
        name = words[0]
        document = import_module(COMMANDS[name]).answer(_request(name))
    except Refusal as refusal:
        _print(refusal.as_dict())
        return EXIT_REFUSED
    except Exception:  # noqa: BLE001 - the outermost place: the control side needs the text and the exit status
        traceback.print_exc()
        return EXIT_CRASH
    if document is not None:
        _print(document)
    return EXIT_OK


def _request(name: str) -> dict[str, Any]:
    if name in WITHOUT_REQUEST:
        return {}
    text = sys.stdin.readline() if name in ONE_LINE_REQUEST else sys.stdin.read()
    try:
        request = json.loads(text)
    except ValueError:
        request = None
    if not isinstance(request, dict):
        # The text is not quoted: what arrives by mistake may be a password.
        raise Refusal(
            code="bad-input",
            found=f"{len(text)} characters on standard input that are not one JSON object.",
            needed="A JSON object, as docs/developer/architecture.md describes it.",
            next_step=f"echo '{{}}' | python3 agent.pyz {name}",
        )
    return request


def _print(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, sort_keys=True, ensure_ascii=False) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
