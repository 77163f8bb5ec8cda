"""Result journal of a batch: keeps each result before it is yielded.

If one process executes the batch, the journal is a file of lines (``file_journals``); if several
processes do, the journal is rows of a database (``row_journals``).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from vibe_llms.batches.items import BatchItem
from vibe_llms.exceptions import RequestError


class ResultJournal(Protocol):
    """Journal of the results of a batch."""

    async def put(
        self, item: BatchItem[Any], input_digest: str, reserved: int = 0
    ) -> BatchItem[Any]:
        """Write a result; return it as written.

        Args:
            reserved: The reservation in the budget that its cost replaces.

        Raises:
            StoreError: The result cannot be written.
        """

    async def finish(self) -> None:
        """Write the remaining results at the end of a run. Raises StoreError."""


class DoneItem(NamedTuple):
    """Entry of the journal for an item that was done before.

    Attributes:
        offset: The position of its line.
        input_digest: Digest of its input.
        has_failed: Whether it failed.
    """

    offset: int
    input_digest: str
    has_failed: bool


def refuse_input(place: str, key: str | int, otherwise: str) -> RequestError:
    """Return the error of a journal that has another input under a name or place."""
    name = f"{key!r}" if isinstance(key, str) else f"number {key}"
    return RequestError(
        path=f"inputs[{key}]",
        detail=f"{place} has a result of item {name}, but for another input.",
        remedy="Pass the earlier inputs unchanged, with new ones at the end, or give each an id; "
        f"{otherwise}.",
    )
