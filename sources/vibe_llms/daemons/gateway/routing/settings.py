"""The ``[models]`` tables of the gateway's file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from vibe_llms.daemons.gateway.routing.circuits import CircuitSettings
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Amount, Count, ListKind, Seconds, TableKind
from vibe_llms.tables.kinds import Kind, KindReader, is_list_of, is_number, is_text
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import require

PATHS = Kind(
    "a list of paths that begin with a slash",
    is_list_of(lambda value: is_text(value) and value.startswith("/")),
    tuple,
)

SIMILARITY = Kind(
    "a number above 0 and at most 1", lambda value: is_number(value) and 0 < value <= 1
)


@frozen(kw_only=True)
class CacheSettings:
    """Limits of a model's cache.

    Attributes:
        seconds: Maximum age of an answer.
        bytes: Size of all answers together; the least recently used is dropped first.
        entries: Number of answers.
        similarity: Minimum similarity of two last questions that share an answer if the requests
            are equal otherwise: the cosine of the angle between their vectors. By default, only
            equal questions share one.
    """

    seconds: Seconds
    bytes: Count = 67_108_864
    entries: Count = 10_000
    similarity: Annotated[float | None, SIMILARITY] = None

    def __attrs_post_init__(self) -> None:
        require(self, "cache")


@frozen(kw_only=True)
class TargetSettings:
    """A model at a provider.

    Attributes:
        model: Address, as ``provider:name``.
        weight: How often the target is asked first, relative to the other targets of the list.
        concurrency: Concurrent requests in one worker process; unlimited by default.
        queue: Maximum number of requests that wait for these.
        queue_seconds: Longest time in the queue; then the next target is asked.
        seconds: Time to the first byte of an answer; then the next target is asked.
        passthrough: Paths in place of those in the model's table.
    """

    model: str
    weight: Count = 1
    concurrency: Count | None = None
    queue: Amount = 0
    queue_seconds: Seconds = 30.0
    seconds: Seconds | None = None
    passthrough: Annotated[tuple[str, ...] | None, PATHS] = None

    def __attrs_post_init__(self) -> None:
        require(self, "target")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between fields."""
        if self.queue and self.concurrency is None:
            yield "queue", "A queue requires concurrency."


class TargetKind(TableKind):
    """Kind of a value: a target, written as a table or only as its address."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TargetSettings)
        self.words = "an address as provider:name, or a table with one as model"

    def read(self, value: Any, path: KeyPath, reader: KindReader) -> Any:
        table = {"model": value} if is_text(value) else value
        return super().read(table, path, reader)


TARGETS = ListKind(TargetKind())


@frozen(kw_only=True)
class ModelSettings:
    """A name that clients may use, and its targets.

    Attributes:
        targets: The first target is chosen at random by weight; then the other targets are asked.
        fallback: Asked if no target answers, in this order: names of other tables, or targets.
        strict: Refuse requests whose translation would lose anything.
        seconds: Time to the first byte of an answer, for targets without this setting.
        circuit: When to stop asking a failing target; by default never.
        cache: Limits of the answer cache; by default there is none.
        single_flight: Send only one of several equal requests; the other requests wait for the
            answer.
        passthrough: Further paths of the upstream that clients may use, such as ``/v1/embeddings``.
        batches: ``vendor`` to submit clients' batches to the batch API of a target's vendor, which
            is cheaper; ``requests`` to send their requests one by one.
    """

    targets: Annotated[tuple[TargetSettings, ...], TARGETS]
    fallback: Annotated[tuple[TargetSettings, ...], TARGETS] = ()
    strict: bool = False
    seconds: Seconds | None = None
    circuit: CircuitSettings | None = None
    cache: CacheSettings | None = None
    single_flight: bool = False
    passthrough: Annotated[tuple[str, ...], PATHS] = ()
    batches: Literal["vendor", "requests"] = "vendor"

    def __attrs_post_init__(self) -> None:
        require(self, "model")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions between fields."""
        if not self.targets:
            yield "targets", "At least one target is required."
