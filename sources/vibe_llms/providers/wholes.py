"""A response that nobody follows: received as one, without what only a stream needs.

A small call spends as much on a stream's machinery (a generator, a dispatcher, a clean-up that
others may wait for) as on its answer, and one that is as most are needs not even its events.
Errors, what had arrived, and the closing of the source are those of
:class:`vibe_llms.providers.streams.ResponseStream`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from vibe_llms.asynchrony import finish
from vibe_llms.events.stream import ContentDeltaEvent, LossEvent
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.interfaces import Translation
from vibe_llms.providers.streams import (
    EventSource,
    close_quietly,
    ensure_ours,
    produce_truncation,
)
from vibe_llms.providers.usual import UsualAnswer


async def receive_whole(
    request: Request,
    assembler: Assembler,
    open_source: Callable[[], Awaitable[Translation[EventSource]]],
) -> Response:
    """Opens a source, and receives all of it.

    Args:
        request: What was asked.
        assembler: A fresh one.
        open_source: Translates and sends the request; returns the losses of the translation, too.

    Raises:
        ConverseError: The response failed; its ``arrived`` are the canisters that had come.
    """
    source: EventSource | None = None
    started = time.perf_counter()
    try:
        opened = await open_source()
        source = opened.value
        if isinstance(source, UsualAnswer):
            seconds = time.perf_counter() - started
            return source.produce_response(request, opened.losses, seconds)
        for loss in opened.losses:
            assembler.feed(LossEvent(loss=loss))
        return await _receive(source, request, assembler, started)
    except Exception as error:
        ours = ensure_ours(error)
        ours.keep_arrived(assembler.produce_canisters())
        raise ours  # noqa: B904  # it is the same error, or has its cause already
    finally:
        if source is not None and not getattr(source, "is_spent", False):
            await _close(source, assembler)


async def _receive(
    source: EventSource, request: Request, assembler: Assembler, started: float
) -> Response:
    first_seconds: float | None = None
    while not assembler.is_complete:
        events = await source.receive()
        if events is None:
            raise produce_truncation()
        for event in events:
            if event.__class__ is not ContentDeltaEvent:
                assembler.feed(event)
                continue
            if first_seconds is None:
                first_seconds = time.perf_counter() - started
            assembler.feed_delta(event)
    return assembler.produce_response(
        request, duration_seconds=time.perf_counter() - started, first_seconds=first_seconds
    )


async def _close(source: EventSource, assembler: Assembler) -> None:
    """Closes a source to the end, even for somebody who is cancelled meanwhile."""
    await finish(close_quietly(source, assembler.origin.provider))
