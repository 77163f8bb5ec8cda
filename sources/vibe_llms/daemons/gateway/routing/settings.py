"""What the ``[models]`` tables of the gateway's file may say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from vibe_llms.daemons.gateway.routing.circuits import CircuitSettings
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.annotations import Amount, Count, ListKind, Seconds, TableKind
from vibe_llms.tables.kinds import Kind, is_list_of, is_text
from vibe_llms.tables.reading import KeyPath, TableReader, require

PATHS = Kind(
    "a list of paths that begin with a slash",
    is_list_of(lambda value: is_text(value) and value.startswith("/")),
    tuple,
)


@frozen(kw_only=True)
class CacheSettings:
    """How much is kept of what a model has answered, and how long.

    Attributes:
        seconds: How long an answer may be given again.
        bytes: Of all answers together; the one that was asked for longest ago goes first.
        entries: How many answers at most.
    """

    seconds: Seconds
    bytes: Count = 67_108_864
    entries: Count = 10_000

    def __attrs_post_init__(self) -> None:
        require(self, "cache")


@frozen(kw_only=True)
class TargetSettings:
    """A model at a provider, to which requests may go.

    Attributes:
        model: As ``provider:name``.
        weight: How often it is asked first, compared with the others of the same list.
        concurrency: How many requests it answers at once, in one worker; without a bound if not
            said.
        queue: How many wait for a place behind these.
        queue_seconds: How long one waits; then the next target is asked.
        seconds: Until the first byte of an answer; then the next target is asked.
        passthrough: Instead of those of the model's table.
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
        """Yields what does not hold between the fields."""
        if self.queue and self.concurrency is None:
            yield "queue", "Nobody waits where there is no bound: say concurrency, too."


class TargetKind(TableKind):
    """A target as a table, or as its address alone."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(TargetSettings)
        self.words = "an address as provider:name, or a table with one as model"

    def read(self, value: Any, path: KeyPath, reader: TableReader) -> Any:
        return super().read({"model": value} if is_text(value) else value, path, reader)


TARGETS = ListKind(TargetKind())


@frozen(kw_only=True)
class ModelSettings:
    """A name that clients may use, and who answers to it.

    Attributes:
        targets: Of these one is asked first by chance and weight, then the others.
        fallback: Who is asked where none of them answers, in this order: names of other tables,
            or targets.
        strict: What would be lost in a translation is an error.
        seconds: Until the first byte of an answer, for targets that do not say themselves.
        circuit: When a target is let alone because it fails; never, if not said.
        cache: Answers are given again; never, if not said.
        single_flight: Of equal requests at the same time one alone is sent; the others wait for
            its answer.
        passthrough: Further paths of the upstream that clients may ask, such as ``/v1/embeddings``.
    """

    targets: Annotated[tuple[TargetSettings, ...], TARGETS]
    fallback: Annotated[tuple[TargetSettings, ...], TARGETS] = ()
    strict: bool = False
    seconds: Seconds | None = None
    circuit: CircuitSettings | None = None
    cache: CacheSettings | None = None
    single_flight: bool = False
    passthrough: Annotated[tuple[str, ...], PATHS] = ()

    def __attrs_post_init__(self) -> None:
        require(self, "model")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yields what does not hold between the fields."""
        if not self.targets:
            yield "targets", "It needs one target at least."
