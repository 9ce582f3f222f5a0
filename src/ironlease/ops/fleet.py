"""Does one thing on many hosts at once; a host that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
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
    Ctrl-C does not wait for work that has begun: closing the hosts' connections ends it.
    """
    items = list(items)
    answers: dict[str, Answer] = {}
    errors: list[IronleaseError] = []
    if not items:
        return answers, errors
    pool = ThreadPoolExecutor(max_workers=min(len(items), MAX_PARALLEL_HOSTS))
    try:
        futures = [(name(item), pool.submit(work, item)) for item in items]
        for label, future in futures:
            try:
                answers[label] = future.result()
            except IronleaseError as error:
                errors.extend(of_host(error, label))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    return answers, errors


def of_host(error: IronleaseError, host: str) -> list[IronleaseError]:
    """Return ``error`` as a list of plain errors that name their host."""
    errors = error.errors if isinstance(error, CombinedError) else [error]
    for one in errors:
        one.host = one.host or host
    return list(errors)
