"""Inputs, items, counts and reports of batches."""

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
    """Return how often the request that failed may have reached its vendor."""
    unreached = error.missed
    if error.stage is Stage.CONNECT:  # the last attempt did not reach the vendor, either
        unreached += 1
    return error.sent - unreached


@frozen
class BatchInput:
    """Input with a name, so that it is found again if the order of the inputs changes.

    Attributes:
        value: The prompt, or the argument of the function.
        id: Name of the input, unique in the batch. An input without a name is identified by its
            index.
    """

    value: Any
    id: str | None = None


@define
class DueInput:
    """Input to process.

    Attributes:
        index: Index of the input, from 0.
        id: Name of the input, if it has one.
        value: Value of the input.
        digest: Digest of the input; empty without a journal.
        has_failed: Whether the journal lists it as failed in an earlier run.
    """

    index: int
    id: str | None = None
    value: Any = None
    digest: str = ""
    has_failed: bool = False


@frozen(kw_only=True, slots=False)
class BatchItem(Generic[T]):
    """Result of one input, or its failure.

    Attributes:
        index: Index of the input, from 0.
        id: Name of the input, if it has one.
        value: The parsed value, the text, or the value that the function returned.
        error: The error of a failure; ``None`` for a result.
        text: Text of the answer, if a model gave one.
        origin: Provider, model and usage of the answer.
        response: The complete answer; ``None`` if it was read from the journal.
        losses: Losses of the translation, a line each.
        seconds: Duration.
        is_stored: Whether an earlier run processed the input, so that the journal has the result.
        tier: Price tier of the answer: ``batch`` if it came from the vendor's own batches; empty
            for the standard price.
        sent: Number of attempts that may have reached the vendor. Each of them may have been
            billed. Not journaled.
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
        """True if the input failed."""
        return self.error is not None

    @property
    def usage(self) -> Usage | None:
        """Usage of the answer, if the vendor reported it."""
        return None if self.origin is None else self.origin.usage


@define(kw_only=True)
class BatchTally:
    """Counts of a running batch.

    Attributes:
        total: Number of inputs; ``None`` while it is unknown.
        done: Number of inputs that succeeded or failed in this run.
        failed: How many of those failed.
        stored: Number of inputs that succeeded or failed in earlier runs, from the journal.
        stored_failed: How many of those failed.
        tokens: Usage of this run, by provider and model, then by bucket.
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
        """Duration of this run so far."""
        return (time.monotonic() if self._ended is None else self._ended) - self._started

    @property
    def usage(self) -> Usage:
        """Usage of this run; ``tokens`` has it by model."""
        sums: dict[str, Any] = {}
        for buckets in self.tokens.values():
            for name, count in buckets.items():
                sums[name] = sums.get(name, 0) + count
        return Usage(**sums)

    def count(self, item: BatchItem[Any]) -> None:
        """Count an item of this run."""
        self.done += 1
        if item.error is not None:
            self.failed += 1
        origin = item.origin
        if origin is None or origin.usage is None:
            return
        buckets = self.tokens.setdefault((origin.provider, origin.model), {})
        for name, count in zip(BUCKETS, read_buckets(origin.usage), strict=True):
            if count is not None:  # a count that the vendor did not report is not 0
                buckets[name] = buckets.get(name, 0) + count

    def end(self) -> None:
        """Stop the clock."""
        if self._ended is None:
            self._ended = time.monotonic()


@frozen(kw_only=True)
class BatchReport(Generic[T]):
    """Results, failures and counts of a batch.

    Attributes:
        results: Items with a value, in the order of the inputs, those of earlier runs included.
        failures: Failed items, in the order of the inputs.
        tally: The counts of this run.
    """

    results: tuple[BatchItem[T], ...]
    failures: tuple[BatchItem[T], ...]
    tally: BatchTally

    @property
    def values(self) -> tuple[T | None, ...]:
        """Value of each result, in the order of the inputs."""
        return tuple(item.value for item in self.results)

    @property
    def usage(self) -> Usage:
        """Usage of this run."""
        return self.tally.usage

    @property
    def seconds(self) -> float:
        """Duration of this run."""
        return self.tally.seconds
