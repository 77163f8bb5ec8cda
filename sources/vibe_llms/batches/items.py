"""What goes into a batch, what comes of each input, and what it all amounts to."""

from __future__ import annotations

import time
from operator import attrgetter
from typing import Any, Generic, TypeVar

import attrs

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.canisters import INPUT_BUCKETS, OUTPUT_BUCKETS, Origin, Usage
from vibe_llms.messages.requests import Response

T = TypeVar("T")

BUCKETS = (*INPUT_BUCKETS, *OUTPUT_BUCKETS)
read_buckets = attrgetter(*BUCKETS)


def count_reached(error: ConverseError) -> int:
    """Returns how often the request that failed may have reached its vendor."""
    return error.sent - error.missed - (error.stage is Stage.CONNECT)


@frozen
class BatchInput:
    """An input with a name of its own, by which it is known again wherever it stands.

    Attributes:
        value: What is asked, or what the function is given.
        id: Its name; no two inputs of a batch have the same. Without one its place counts.
    """

    value: Any
    id: str | None = None


@frozen(kw_only=True, slots=False)
class BatchItem(Generic[T]):
    """One input of a batch, done or failed.

    Attributes:
        index: The place of the input, from 0.
        id: Its name, where it has one.
        value: What came of it: the parsed value, the text, or what the function returned.
        error: Why it failed; ``None`` where it did not.
        text: The answer in words, where a model gave one.
        origin: Where the answer came from, and what it used.
        response: All of the answer; ``None`` where it was read from the journal.
        losses: What was lost in translation, a line each.
        seconds: How long it took.
        is_stored: Whether it was done before, and read from the journal.
        tier: Which of its vendor's prices holds for the answer: ``batch`` where it came by the
            vendor's own batches; empty for the usual.
        sent: How often one request for it was sent, and may have reached its vendor; each time but
            the last may have been billed, too. No journal has it.
    """

    index: int = 0
    id: str | None = None
    value: T | None = None
    error: ConverseError | None = None
    text: str | None = None
    origin: Origin | None = None
    response: Response | None = attrs.field(default=None, repr=False)
    losses: tuple[str, ...] = ()
    seconds: float = 0.0
    is_stored: bool = False
    tier: str = ""
    sent: int = 1

    @property
    def has_failed(self) -> bool:
        """Whether there is no value, for an error."""
        return self.error is not None

    @property
    def usage(self) -> Usage | None:
        """What the answer used, where the vendor said."""
        return None if self.origin is None else self.origin.usage


@define(kw_only=True)
class BatchTally:
    """How far a batch has come: counted while it runs, and read by whoever wants to show it.

    Attributes:
        total: How many inputs there are; ``None`` where nobody knows yet.
        done: How many were done or failed in this run.
        failed: How many of those failed.
        stored: How many were done or failed before, by the journal, and are left so.
        stored_failed: How many of those failed.
        tokens: What the answers of this run used, by provider and model, then by bucket.
    """

    total: int | None = None
    done: int = 0
    failed: int = 0
    stored: int = 0
    stored_failed: int = 0
    tokens: dict[tuple[str, str], dict[str, Any]] = attrs.field(factory=dict)
    _started: float = attrs.field(factory=time.monotonic, init=False)
    _ended: float | None = attrs.field(default=None, init=False)

    @property
    def seconds(self) -> float:
        """How long this run takes, or took."""
        return (time.monotonic() if self._ended is None else self._ended) - self._started

    @property
    def usage(self) -> Usage:
        """What all answers of this run used; each by its model is in ``tokens``."""
        sums: dict[str, Any] = {}
        for buckets in self.tokens.values():
            for name, count in buckets.items():
                sums[name] = sums.get(name, 0) + count
        return Usage(**sums)

    def count(self, item: BatchItem[Any]) -> None:
        """Counts an item that this run has done."""
        self.done += 1
        if item.error is not None:
            self.failed += 1
        origin = item.origin
        if origin is None or origin.usage is None:
            return
        buckets = self.tokens.setdefault((origin.provider, origin.model), {})
        for name, count in zip(BUCKETS, read_buckets(origin.usage), strict=True):
            if count is not None:  # what the vendor did not say is not 0
                buckets[name] = buckets.get(name, 0) + count

    def end(self) -> None:
        """Stops the clock."""
        if self._ended is None:
            self._ended = time.monotonic()


@frozen(kw_only=True)
class BatchReport(Generic[T]):
    """What a batch amounts to.

    Attributes:
        results: What was done, in the order of the inputs; that of earlier runs included.
        failures: What failed, in the order of the inputs.
        tally: The counts of this run.
    """

    results: tuple[BatchItem[T], ...]
    failures: tuple[BatchItem[T], ...]
    tally: BatchTally

    @property
    def values(self) -> tuple[T | None, ...]:
        """What came of each input that was done, in the order of the inputs."""
        return tuple(item.value for item in self.results)

    @property
    def usage(self) -> Usage:
        """What all answers of this run used."""
        return self.tally.usage

    @property
    def seconds(self) -> float:
        """How long this run took."""
        return self.tally.seconds
