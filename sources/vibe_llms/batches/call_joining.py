"""Joined calls: texts of many inputs share requests of the size that the vendor allows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs

from vibe_llms.batches.items import BUCKETS
from vibe_llms.exceptions import ProviderError, ProviderFault, RequestError
from vibe_llms.foundation.portal import finish
from vibe_llms.messages.canisters import Usage

if TYPE_CHECKING:
    from vibe_llms.providers.interfaces import CallModel

MAX_TEXTS: Final = 1_024
"""Maximum texts of one request, if the vendor allows more: so that several are sent at once."""

_LINGER_SECONDS: Final = 0.005
"""How long an incomplete request waits for more texts."""

_OWN_FAULTS: Final = (ProviderFault.INVALID_REQUEST, ProviderFault.BLOCKED)
"""Faults that may be due to one text of a request."""


class JoinedAnswer(NamedTuple):
    """The answer to one text of a request.

    Attributes:
        result: The result of the whole request.
        place: Place of the text in the request.
        usage: Usage of this text alone.
    """

    result: Any
    place: int
    usage: Usage | None


class _WaitingText(NamedTuple):
    text: str
    size: int
    answer: asyncio.Future[JoinedAnswer]


class CallJoiner:
    """Joins texts that wait at the same time into requests to one model.

    Args:
        model: The model.
        pattern: The request without its texts.
        concurrency: Number of requests at once.
    """

    def __init__(self, model: CallModel[Any, Any], pattern: Any, concurrency: int) -> None:
        self._model = model
        self._pattern = pattern
        self._concurrency = concurrency
        self.max_texts = min(model.max_inputs, MAX_TEXTS)
        self._waiting: list[_WaitingText] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(concurrency)

    async def call(self, text: str) -> JoinedAnswer:
        """Return the answer to a text. Raises ConverseError."""
        size = len(text.encode("utf-8", "replace"))
        answer: asyncio.Future[JoinedAnswer] = asyncio.get_running_loop().create_future()
        if self._size + size > self._model.max_bytes:
            self._send()
        self._waiting.append(_WaitingText(text, size, answer))
        self._size += size
        if len(self._waiting) >= self.max_texts:
            self._send()
        self._plan()
        return await answer

    async def close(self) -> None:
        """Cancel the requests under way, and the waiting texts."""
        if self._timer is not None:
            self._timer.cancel()
        for each in self._waiting:
            each.answer.cancel()
        for request in self._requests:
            request.cancel()
        await finish(asyncio.gather(*self._requests, return_exceptions=True))

    def _plan(self) -> None:
        """Send the waiting texts soon, unless enough requests are under way."""
        if self._waiting and self._timer is None and len(self._requests) < self._concurrency:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_LINGER_SECONDS, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        group, self._waiting, self._size = self._waiting, [], 0
        if not group:
            return
        request = asyncio.create_task(self._perform(group))
        self._requests.add(request)
        request.add_done_callback(self._end)

    def _end(self, request: asyncio.Task[None]) -> None:
        self._requests.discard(request)
        self._plan()

    async def _perform(self, group: Sequence[_WaitingText]) -> None:
        """Answer a group; divide it if one of its texts may be invalid."""
        try:
            texts = tuple(each.text for each in group)
            async with self._room:
                result = await self._model.call(attrs.evolve(self._pattern, texts=texts))
            usages = divide_usage(result.usage, [each.size for each in group])
        except asyncio.CancelledError:
            for each in group:
                each.answer.cancel()
            raise
        except Exception as error:
            if len(group) > 1 and _may_be_due_to_one(error):
                middle = len(group) // 2
                await self._perform(group[:middle])
                await self._perform(group[middle:])
                return
            for each in group:
                if not each.answer.done():
                    each.answer.set_exception(error)
            return
        for place, (each, usage) in enumerate(zip(group, usages, strict=True)):
            if not each.answer.done():
                each.answer.set_result(JoinedAnswer(result, place, usage))


def _may_be_due_to_one(error: Exception) -> bool:
    if isinstance(error, ProviderError):
        return error.fault in _OWN_FAULTS
    return isinstance(error, RequestError)


def divide_usage(usage: Usage | None, sizes: Sequence[int]) -> list[Usage | None]:
    """Divide the usage of a request among its texts by their sizes; the sum stays exact."""
    if usage is None:
        return [None] * len(sizes)
    counts = [(name, getattr(usage, name)) for name in BUCKETS]
    known = [(name, count) for name, count in counts if count is not None]
    whole = sum(sizes) or 1
    made: dict[tuple[int, ...], Usage] = {}  # many parts are equal
    parts: list[Usage | None] = []
    done = 0
    for size in sizes:
        end = done + size
        shares = tuple([count * end // whole - count * done // whole for _, count in known])
        part = made.get(shares)
        if part is None:
            # Vendors leave out that there was no output.
            fields: dict[str, Any] = {"output_tokens": 0}
            fields |= {name: share for (name, _), share in zip(known, shares, strict=True)}
            part = made[shares] = Usage(**fields)
        parts.append(part)
        done = end
    return parts
