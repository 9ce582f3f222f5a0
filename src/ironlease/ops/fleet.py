"""Does one thing on many hosts at once; a host that fails does not stop the others."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TypeVar

from ironlease.errors import CombinedError, IronleaseError

MAX_PARALLEL_HOSTS = 32

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def each(
    items: Iterable[Item], name: Callable[[Item], str], work: Callable[[Item], Answer]
) -> tuple[dict[str, Answer], list[IronleaseError]]:
    """Return the answers of ``work`` by name, and the errors of the items that failed, each naming its host.

    Only an :class:`IronleaseError` is a failure of that item; anything else is a crash of ours and is raised.
    Ctrl-C waits for nobody: the threads are no reason for Python to stay, and closing the connections ends their work.
    """
    waiting: queue.SimpleQueue[tuple[Item, Future[Answer]]] = queue.SimpleQueue()
    futures: list[tuple[str, Future[Answer]]] = []
    for item in items:
        future: Future[Answer] = Future()
        futures.append((name(item), future))
        waiting.put((item, future))
    for _ in range(min(len(futures), MAX_PARALLEL_HOSTS)):
        threading.Thread(target=_work_off, args=(waiting, work), daemon=True).start()
    answers: dict[str, Answer] = {}
    errors: list[IronleaseError] = []
    try:
        for label, future in futures:
            try:
                answers[label] = future.result()
            except IronleaseError as error:
                errors.extend(of_host(error, label))
    finally:
        for _, future in futures:
            future.cancel()
    return answers, errors


def _work_off(waiting: queue.SimpleQueue[tuple[Item, Future[Answer]]], work: Callable[[Item], Answer]) -> None:
    while True:
        try:
            item, future = waiting.get_nowait()
        except queue.Empty:
            return
        if not future.set_running_or_notify_cancel():
            continue
        try:
            future.set_result(work(item))
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the answer
            future.set_exception(error)


def of_host(error: IronleaseError, host: str) -> list[IronleaseError]:
    """Return ``error`` as a list of plain errors that name their host."""
    errors = error.errors if isinstance(error, CombinedError) else [error]
    for one in errors:
        one.host = one.host or host
    return list(errors)
