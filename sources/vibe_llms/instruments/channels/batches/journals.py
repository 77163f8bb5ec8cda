"""The journal of a batch: what came of each item, written before anybody is told of it.

A file of lines keeps it where one process performs a batch (``line_journals``), and rows of a
database where several do (``row_journals``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from vibe_llms.exceptions import Finding, RequestError
from vibe_llms.instruments.channels.batches.items import BatchItem


class DoneItem(NamedTuple):
    """What is known of an item that was done before.

    Attributes:
        offset: Where its line is: the journal knows what that means.
        input_digest: Of its input.
        has_failed: Whether it failed.
    """

    offset: int
    input_digest: str
    has_failed: bool


class ItemJournal(Protocol):
    """What was done of one batch."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found amiss, and mended: its item is asked again."""

    def find(self, key: str | int, input_digest: str) -> DoneItem | None:
        """Returns what is known of an item, by its name or place; ``None`` where it was not done.

        Raises:
            RequestError: It was done, but for another input.
        """

    async def append(self, item: BatchItem[Any], line: bytes, input_digest: str) -> None:
        """Writes an item. When this returns, the death of this process does not lose it.

        Raises:
            StoreError: It could not be written; the journal is as it was.
        """

    def read(self, entry: DoneItem) -> bytes:
        """Returns the line of an item."""

    def synchronize(self) -> None:
        """Lets what was written so far survive the loss of power, too."""

    def settle(self) -> None:
        """Leaves what came of each item once, in the order of the inputs."""

    def close(self) -> None:
        """Keeps all that was written, and lets others have it. May be called again."""


def refuse_input(place: str, key: str | int, otherwise: str) -> RequestError:
    """Says that a journal has something else under a name or place."""
    name = f"{key!r}" if isinstance(key, str) else f"number {key}"
    return RequestError(
        path=f"inputs[{key}]",
        detail=f"{place} has a result of item {name}, but for another input.",
        remedy="Give the inputs as they were, with new ones behind them, or ids to each; "
        f"{otherwise}.",
    )
