"""Source of the inputs of a chunk that a worker has taken."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from vibe_llms.batches.databases import BatchDatabase
from vibe_llms.batches.items import BatchItem, DueInput
from vibe_llms.batches.journals import DoneItem
from vibe_llms.batches.row_chunks import (
    InputRow,
    TakenChunk,
    begin_alone,
    is_answered,
    read_answered,
)
from vibe_llms.batches.work_makers import Performer
from vibe_llms.exceptions import ConverseError, Stage, StoreError, StoreUnavailableError
from vibe_llms.foundation.portal import finish

_LOGGER = logging.getLogger(__name__)

ATTEMPTS: Final = 3
"""Attempts at a chunk before its inputs are processed one at a time, as one may crash workers."""

ALONE: Final = 2
"""Attempts at an input that is processed alone before it is skipped."""


class ChunkSource:
    """Inputs of a chunk without a result, with the work that is applied to them.

    Args:
        database: Database with the rows.
        taken_chunk: The chunk.
        performer: Work applied to each input.

    Attributes:
        is_careful: Whether to process inputs one by one, since workers have died on the chunk.
        delay_cause: The error of an input that another worker has, or whose store is unreachable.
    """

    def __init__(
        self, database: BatchDatabase, taken_chunk: TakenChunk, performer: Performer
    ) -> None:
        self._database = database
        self._taken_chunk = taken_chunk
        self._performer = performer
        self.is_careful = taken_chunk.attempts > ATTEMPTS
        self.keeps_runs = performer.keeps_runs
        self.delay_cause: StoreError | None = None

    @property
    def must_stop(self) -> bool:
        """True if the store is unreachable, which affects the other inputs as well."""
        return isinstance(self.delay_cause, StoreUnavailableError)

    @property
    def stored(self) -> int:
        """Always zero: a worker takes only inputs without a result."""
        return 0

    async def open(self) -> None:
        """Remove runs that an earlier worker kept of inputs that have a result."""
        if not self.keeps_runs or self._taken_chunk.epoch == 1:
            return
        answered = await finish(asyncio.to_thread(read_answered, self._database, self._taken_chunk))
        for row in answered:
            await self._performer.discard_run(row, is_mine=False)

    async def admit(self, place: int, row: InputRow) -> DueInput | DoneItem:
        """Admit an input."""
        return DueInput(row.number, row.name, row, row.digest)

    async def restore(self, entry: DoneItem) -> BatchItem[Any]:
        """Raise an error, since no input has a result."""
        raise NotImplementedError

    async def encode_input(self, due: DueInput) -> str:
        """Return an input in its stored form."""
        stored: str = due.value.input
        return stored

    async def process(self, row: InputRow) -> BatchItem[Any] | None:
        """Process an input; return ``None`` where another worker has its run."""
        if self.is_careful:
            await self._begin_alone(row)
        if not self.keeps_runs:
            return await self._performer.perform(row)
        try:
            return await self._performer.perform(row, self._is_answered)
        except StoreError as error:
            if self.delay_cause is None:
                _LOGGER.warning("an input is delayed: %s", error)
            if not self.must_stop:
                self.delay_cause = error
            return None

    async def release(self, due: DueInput) -> None:
        """Remove the run of an input whose result is written."""
        if self.keeps_runs:
            await self._performer.discard_run(due.value)

    def _is_answered(self, row: InputRow) -> bool:
        return is_answered(self._database, self._taken_chunk, row.number)

    async def _begin_alone(self, row: InputRow) -> None:
        """Record that an input is processed alone; refuse it if that has happened too often."""
        if row.alone_attempts >= ALONE:
            error = ConverseError(
                detail=f"Skipped: it was processed alone {row.alone_attempts} times, and its "
                "worker died each time.",
                remedy="Retry it if the input did not cause the crashes.",
                stage=Stage.EXECUTE,
            )
            error.keep_arrived((), sent=0)
            raise error
        batch, chunk = self._taken_chunk.batch, self._taken_chunk.chunk
        await finish(asyncio.to_thread(begin_alone, self._database, batch, chunk, row.number))
