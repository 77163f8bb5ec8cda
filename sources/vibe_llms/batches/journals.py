"""The journal of a batch: what came of each item, written before anybody is told of it.

A file of lines keeps it where one process performs a batch (``line_journals``), and rows of a
database where several do (``row_journals``).
"""

from __future__ import annotations

from typing import NamedTuple

from vibe_llms.exceptions import RequestError


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


def refuse_input(place: str, key: str | int, otherwise: str) -> RequestError:
    """Says that a journal has something else under a name or place."""
    name = f"{key!r}" if isinstance(key, str) else f"number {key}"
    return RequestError(
        path=f"inputs[{key}]",
        detail=f"{place} has a result of item {name}, but for another input.",
        remedy="Give the inputs as they were, with new ones behind them, or ids to each; "
        f"{otherwise}.",
    )
