"""Turns whatever a command does, a crash included, into a result, and a result into words, JSON and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TextIO

from ironlease import redact
from ironlease.console import Console, as_typed
from ironlease.errors import ExitCode, IronleaseError, UnfinishedError
from ironlease.ops.result import Result
from ironlease.runs import RunFolder


class InterruptedByUserError(UnfinishedError):
    """Ctrl-C, or a request to end from the system."""

    code = "interrupted"


class CannotWriteError(UnfinishedError):
    """This computer refuses what we write to: its disk is full, or the folder is not ours."""

    code = "cannot-write"


# What the system says of a disk or a folder, never of a mistake of ours.
_DISK_WORDS = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}


class CrashError(IronleaseError):
    """A mistake in ironlease itself."""

    code = "crash"
    exit_code = ExitCode.CRASH


def guarded(work: Callable[[], Result], crash_folder: Callable[[], RunFolder], *, debug: bool) -> Result:
    """Return what ``work`` returns, or the result that stands for the error it raised.

    The traceback of a crash goes to a file in ``crash_folder()``, and to the terminal only when ``debug``.
    """
    try:
        return work()
    except IronleaseError as error:
        return Result.refused(error)
    except KeyboardInterrupt:
        return Result.refused(
            InterruptedByUserError(
                found="Interrupted.",
                needed="The command's end; what it had done so far stays.",
                next_step="Run the same command again: it goes on from there.",
            )
        )
    except OSError as error:
        if error.errno not in _DISK_WORDS:
            return _crashed(error, crash_folder, debug=debug)
        return Result.refused(_cannot_write(error))
    except Exception as error:  # noqa: BLE001 - the one place that turns a crash into words
        return _crashed(error, crash_folder, debug=debug)


def deliver(console: Console, result: Result) -> int:
    """Print ``result`` and return the exit code."""
    for line in result.lines:
        if isinstance(line, str):
            console.line(line)
        else:
            console.table(line)
    for number, error in enumerate(result.errors):
        if number or result.lines:
            console.note("")
        console.error(error)
    if result.summary:
        console.line(as_typed(result.summary), style="bold")
    if console.json_mode:
        console.json_object(result.to_json())
    return int(result.exit_code)


@contextlib.contextmanager
def reserved_stdout(*, reserved: bool) -> Iterator[TextIO | None]:
    """Yield the stream for results; when ``reserved`` (``--json``), nobody else writes there.

    What libraries and child processes print on stdout meanwhile goes to stderr.
    """
    stdout = sys.stdout
    if not reserved or stdout is None or sys.stderr is None:
        yield stdout
        return
    with contextlib.redirect_stdout(sys.stderr):
        try:
            descriptor = stdout.fileno()
        except OSError:  # a test's capture is no file
            yield stdout
            return
        kept = os.dup(descriptor)
        os.dup2(sys.stderr.fileno(), descriptor)
        try:
            with os.fdopen(os.dup(kept), "w", encoding="utf-8") as own:
                yield own
        finally:
            os.dup2(kept, descriptor)
            os.close(kept)


def interrupt_on_signals() -> None:
    """Let SIGTERM and SIGHUP end a command the way Ctrl-C does: with its cleaning up done."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def _crashed(error: Exception, crash_folder: Callable[[], RunFolder], *, debug: bool) -> Result:
    trace = "".join(traceback.format_exception(error))
    if debug:
        sys.stderr.write(redact.scrub(trace))
    return Result.refused(_crash(error, _keep_trace(trace, crash_folder)))


def _cannot_write(error: OSError) -> CannotWriteError:
    return CannotWriteError(
        found=f"This computer does not let us write: {error.strerror}: {error.filename or 'the folder of this run'}",
        needed="Space and permission for the folders of what was run and what is remembered (runs/, state/).",
        next_step="Look at `df -h` and `ls -ld`, or set IRONLEASE_RUNS_DIR and IRONLEASE_STATE_DIR to other folders; "
        "then run the same command again.",
    )


def _keep_trace(trace: str, crash_folder: Callable[[], RunFolder]) -> Path | None:
    try:
        return crash_folder().write_text("crash.log", trace)
    except OSError:
        pass
    try:
        return RunFolder(Path(tempfile.mkdtemp(prefix="ironlease-crash-"))).write_text("crash.log", trace)
    except OSError:
        return None


def _crash(error: Exception, log: Path | None) -> CrashError:
    return CrashError(
        found=f"ironlease crashed: {type(error).__name__}: {error}",
        needed="Nothing from you: this is a mistake in ironlease.",
        next_step=(
            f"Read {log}, and report it; running the same command again is safe."
            if log
            else "Run the same command again with --debug, and report what it prints."
        ),
    )
