"""Submission of chunks to a vendor's batches; each chunk is logged before it is sent."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs

from vibe_llms.batches.items import DueInput
from vibe_llms.batches.vendor_chunks import (
    Chunk,
    ChunkEnd,
    ChunkItem,
    ChunkLog,
    name_item,
)
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.messages.losses import Translation
from vibe_llms.providers.batches import BatchRequest, was_refused
from vibe_llms.providers.batching import AnyBatches

ARRIVING_SECONDS: Final = 120
"""Time after which a chunk that the vendor does not list was certainly not received.

If the process dies while it sends a chunk, the request may still be in transit. Within this time it
arrives, or the network drops it.
"""

FIRST_PAUSE_SECONDS: Final = 2.0
LAST_PAUSE_SECONDS: Final = 60.0
PAUSE_GROWTH: Final = 1.5
"""Growth of the pauses between two polls of the vendor, from the first to the last: most batches
take minutes, and some a day."""

_NAME_BYTES: Final = 8


class ChunkCourse(enum.StrEnum):
    """Kind of event in the course of a chunk at a vendor."""

    SUBMITTED = "submitted"
    FOUND = "found"
    WAITING = "waiting"
    ABSENT = "absent"
    DOUBTFUL = "doubtful"
    ENDED = "ended"
    LOST = "lost"


@frozen(kw_only=True)
class ChunkNews:
    """News of a chunk at a vendor.

    Attributes:
        course: Kind of event.
        vendor: The vendor's id of the batch; empty if it is unknown.
        requests: Number of its requests.
        done: Number of ended requests, as reported by the vendor.
        error: Reason why its state is unknown.
    """

    course: ChunkCourse
    vendor: str = ""
    requests: int = 0
    done: int = 0
    error: ConverseError | None = None


Listener = Callable[[ChunkNews], None]


@define(kw_only=True)
class _Draft:
    """Requests gathered for the next chunk."""

    chunk: str
    items: list[ChunkItem] = attrs.field(factory=list)
    requests: list[BatchRequest] = attrs.field(factory=list)
    due_inputs: list[DueInput] = attrs.field(factory=list)
    size: int = 0


def _produce_draft() -> _Draft:
    return _Draft(chunk=os.urandom(_NAME_BYTES).hex())


class Submitter:
    """Submitter of requests, in chunks of a size that the vendor accepts.

    Args:
        compose: Composes the request of an input.
        batches: Batch API of the vendor.
        log: Log of intents.
        report: Called with each event of a chunk.
        resubmits: Whether to resubmit chunks that may have been submitted, when the vendor cannot
            be asked.

    Attributes:
        doubtful: Chunks that the vendor may or may not have, with the reason for the doubt.
    """

    def __init__(
        self,
        compose: Callable[[Any], Awaitable[Any]],
        batches: AnyBatches,
        log: ChunkLog,
        report: Listener,
        *,
        resubmits: bool = False,
    ) -> None:
        self._compose = compose
        self._batches = batches
        self._log = log
        self._report = report
        self._resubmits = resubmits
        self._draft = _produce_draft()
        self.doubtful: dict[str, ConverseError] = {}

    async def resume(self, chunks: Sequence[Chunk] | None = None) -> None:
        """Look up chunks that an earlier process may have submitted before it died.

        Args:
            chunks: Chunks to look up; by default all.

        Raises:
            StoreError: The result of the lookup cannot be written to the log.
        """
        for chunk in self._log.open_chunks if chunks is None else chunks:
            if not chunk.vendor:
                await self._resolve(chunk)

    async def translate(self, value: Any) -> Translation[BatchRequest]:
        """Compose the request for the next call of :meth:`add`. Raises ConverseError."""
        draft = self._draft
        name = name_item(draft.chunk, len(draft.items))
        return self._batches.translate(name, await self._compose(value))

    async def add(
        self, due: DueInput, translation: Translation[BatchRequest]
    ) -> dict[str, DueInput]:
        """Add an input with its request; return the inputs that were submitted to make room.

        Returns:
            The submitted inputs, by their names at the vendor.

        Raises:
            ConverseError: A chunk cannot be submitted.
        """
        submitted: dict[str, DueInput] = {}
        draft, bounds = self._draft, self._batches.bounds
        size = len(translation.value.data) + 1  # the separator between two requests
        if len(draft.items) >= bounds.requests or draft.size + size > bounds.bytes:
            submitted = await self.flush()
            draft = self._draft
            translation = await self.translate(due.value)  # its name includes the chunk's
        losses = tuple(map(str, translation.losses))
        draft.requests.append(translation.value)
        draft.items.append(ChunkItem(due.index, due.id, due.digest, due.has_failed, losses))
        # Without its value, which may be long and is not needed again.
        draft.due_inputs.append(attrs.evolve(due, value=None))
        draft.size += size
        return submitted

    async def flush(self) -> dict[str, DueInput]:
        """Submit the gathered requests; return their inputs by their names at the vendor.

        Raises:
            ConverseError: The vendor refuses the chunk, or the intent cannot be written.
        """
        draft, self._draft = self._draft, _produce_draft()
        if not draft.items:
            return {}
        chunk = Chunk(
            chunk=draft.chunk,
            batch=self._log.settings_digest,
            at=time.time(),
            items=tuple(draft.items),
        )
        await self._log.intend(chunk)
        await self._submit(chunk, draft.requests)
        return {name_item(chunk.chunk, place): due for place, due in enumerate(draft.due_inputs)}

    async def _submit(self, chunk: Chunk, requests: list[BatchRequest]) -> None:
        policy, clock = self._batches.policy, self._batches.clock
        attempt = 1
        while True:
            try:
                vendor_batch_id = await self._batches.submit(chunk.chunk, requests)
            except ConverseError as error:
                wait_seconds = policy.decide(error, attempt, jitter=1.0)
                is_last_attempt = wait_seconds is None
                if not was_refused(error):  # the vendor may have received the chunk
                    await self._resolve(chunk, may_end=is_last_attempt)
                    if chunk.vendor or chunk.chunk in self.doubtful:
                        return
                elif is_last_attempt:
                    await self._log.end(chunk, ChunkEnd.REFUSED)
                if wait_seconds is None:
                    raise
                attempt += 1
                await clock.sleep(wait_seconds)
                await self._log.send_again(chunk, time.time())
            else:
                await self._log.name(chunk, vendor_batch_id)
                self._report_chunk(ChunkCourse.SUBMITTED, chunk)
                return

    async def _resolve(self, chunk: Chunk, *, may_end: bool = True) -> None:
        """Find out whether the vendor has a chunk; if it does not, end the chunk.

        Args:
            may_end: Whether to end it. Otherwise the caller submits it again under the same name.
        """
        clock = self._batches.clock
        self.doubtful.pop(chunk.chunk, None)
        sent = chunk.sent or chunk.at
        age = min(max(time.time() - sent, 0.0), ARRIVING_SECONDS)
        certain_at = clock.read() + ARRIVING_SECONDS - age
        names = [name_item(chunk.chunk, place) for place in range(len(chunk.items))]
        known = self._log.vendor_names
        pause = FIRST_PAUSE_SECONDS
        while True:
            is_late = clock.read() >= certain_at  # before the lookup, which takes time as well
            try:
                sighting = await self._batches.find(
                    chunk.chunk, since=chunk.at, requests=names, known=known
                )
            except ConverseError as error:
                if self._resubmits:
                    return await self._mark_absent(chunk, may_end=may_end)
                self.doubtful[chunk.chunk] = error
                self._report(
                    ChunkNews(course=ChunkCourse.DOUBTFUL, requests=len(chunk.items), error=error)
                )
                return
            if sighting.id:
                await self._log.name(chunk, sighting.id)
                self._report_chunk(ChunkCourse.FOUND, chunk)
                return
            if is_late and not sighting.is_undecided:
                return await self._mark_absent(chunk, may_end=may_end)
            self._report_chunk(ChunkCourse.WAITING, chunk)
            await clock.sleep(pause)
            pause = lengthen(pause)

    async def _mark_absent(self, chunk: Chunk, *, may_end: bool) -> None:
        if may_end:
            await self._log.end(chunk, ChunkEnd.ABSENT)
        self._report_chunk(ChunkCourse.ABSENT, chunk)

    def _report_chunk(self, course: ChunkCourse, chunk: Chunk) -> None:
        self._report(ChunkNews(course=course, vendor=chunk.vendor, requests=len(chunk.items)))


def lengthen(pause: float) -> float:
    """Return the pause that follows a pause between two polls of the vendor, in seconds."""
    return min(pause * PAUSE_GROWTH, LAST_PAUSE_SECONDS)
