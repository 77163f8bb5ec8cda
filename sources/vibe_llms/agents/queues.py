"""Queues of runs and batches, and their concurrency."""

from __future__ import annotations

import re
from typing import Any, Final

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.kinds import Kind, is_whole

DEFAULT_QUEUE: Final = "runs"
"""Queue of runs whose specification names none."""

EACH: Final = 16
"""Default number of runs at once in each worker."""

BATCH_QUEUE: Final = "batches"
"""Queue of chunks of batches."""

_CHUNKS: Final = 2
"""Chunks that a worker has at once: the next starts while the last inputs of one are pending."""

_NAME: Final = r"[a-z][a-z0-9_-]{0,62}"
_HIGHEST: Final = 1_000
_WORD: Final = re.compile(rf"({_NAME})(?:=([1-9][0-9]{{0,5}})(?:/([1-9][0-9]{{0,5}}))?)?")


@frozen
class Queue:
    """A queue and its concurrency.

    Attributes:
        name: The name in requests for runs.
        each: Runs at once in each worker.
        total: Runs at once in all workers together; ``None`` for no limit.
    """

    name: str = DEFAULT_QUEUE
    each: int = EACH
    total: int | None = None


BATCHES: Final = Queue(BATCH_QUEUE, _CHUNKS)


def _is_name(value: Any) -> bool:
    return (
        isinstance(value, str) and re.fullmatch(_NAME, value) is not None and value != BATCH_QUEUE
    )


def _is_priority(value: Any) -> bool:
    return is_whole(value) and abs(value) <= _HIGHEST


QUEUE: Final = Kind("the name of a queue of runs, such as `nightly`", _is_name)
PRIORITY: Final = Kind(f"a whole number from -{_HIGHEST} to {_HIGHEST}", _is_priority)


def read_queues(text: str) -> tuple[Queue, ...]:
    """Read a list of queues, such as ``runs=16/64,nightly=2``.

    Each queue is a name, its concurrency in each worker, and in all workers together.

    Raises:
        ConfigurationError: A queue is invalid or repeated.
    """
    found: dict[str, Queue] = {}
    for word in filter(None, (each.strip() for each in text.split(","))):
        match = _WORD.fullmatch(word)
        if match is None:
            raise _refuse(f"Invalid queue {word!r}: write NAME, NAME=EACH or NAME=EACH/TOTAL")
        name, each, total = match.groups()
        default = _CHUNKS if name == BATCH_QUEUE else EACH
        queue = Queue(name, int(each or default), int(total) if total else None)
        if queue.total is not None and queue.total < queue.each:
            raise _refuse(f"{word!r}: the total must be at least the number for each worker")
        if name in found:
            raise _refuse(f"{name!r} is named twice")
        found[name] = queue
    if not found:
        raise _refuse("No queue is named")
    return tuple(found.values())


def _refuse(message: str) -> ConfigurationError:
    return ConfigurationError(findings=(Finding(place="queues", message=f"{message}."),))
