"""An answer on its way to a client, which is kept before the client learns its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from vibe_llms.daemons.asgi import JSON, NOTHING, HttpCall
from vibe_llms.daemons.gateway.responses.bodies import Fields, interrupt_body
from vibe_llms.daemons.gateway.responses.response_streams import ResponseReader, Restater
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.limits import Limits


class ResponseSink(Protocol):
    """Where a response is kept."""

    @property
    def is_heard(self) -> bool:
        """Whether the whole answer is to be kept, and not its id alone."""

    @property
    def told(self) -> Fields:
        """What a streamed response says of what it goes on from."""

    async def begin(self, response: Fields) -> None:
        """Keeps that there is a response. Raises StoreError."""

    async def settle(self, response: Fields) -> None:
        """Keeps what it has come to; it was begun. Raises StoreError."""

    async def keep(self, response: Fields) -> Fields:
        """Keeps a whole response at once; returns it as it is told. Raises StoreError."""


class StoringCall(HttpCall):
    """Passes an answer on to another call, and has it kept on the way.

    Args:
        call: Is answered.
        kept: Keeps.
        limits: Of the answer.
    """

    __slots__ = (
        "_call",
        "_head",
        "_hearer",
        "_held",
        "_is_begun",
        "_is_settled",
        "_kept",
        "_restater",
    )

    def __init__(self, call: HttpCall, kept: ResponseSink, limits: Limits) -> None:
        super().__init__(call.scope, call._receive, call._send, request_id=call.request_id, limit=0)
        self._call = call
        self._kept = kept
        self._hearer = ResponseReader(limits)
        self._head: tuple[int, Mapping[str, str]] | None = None
        self._held: list[bytes] = []
        self._restater = Restater(kept.told) if kept.told else None
        self._is_begun = False
        self._is_settled = False

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], *, content_type: str = JSON
    ) -> None:
        """Answers with a whole body, when it is kept."""
        if status < 400:
            response = _read_response(body)
            if response is not None:
                told = await self._kept.keep(response)
                if told is not response:
                    body = msgspec.json.encode(told)
        await self._call.answer(status, body, headers, content_type=content_type)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Notes how the answer begins; it is told when the response is kept."""
        self.status = status
        self._head = (status, headers)

    async def send(self, data: bytes) -> None:
        """Sends a piece: the first when the response is kept, the last when its end is."""
        if not self._is_begun or (self._kept.is_heard and not self._is_settled):
            self._hearer.feed(data)
        if not self._is_begun:
            self._held.append(data)
            if self._hearer.response is None:
                return
            try:
                await self._kept.begin(self._hearer.response)
            except StoreError:  # the client has had no byte, and learns of no id
                self.status, self._head, self._held = 0, None, []
                raise
            self._is_begun = True
            data = b"".join(self._held)
            self._held = []
        await self._tell_head()
        if self._hearer.is_over and not self._is_settled:
            await self._settle(self._hearer.compose())
        await self._pass_on(data)

    async def _pass_on(self, data: bytes) -> None:
        if self._restater is not None:
            data = self._restater.feed(data)
            if not data:
                return
        await self._call.send(data)

    async def _tell_head(self) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            await self._call.begin(*head)

    async def _settle(self, response: Fields) -> None:
        self._is_settled = True
        if self._kept.is_heard:
            await self._kept.settle(response)

    async def finish(self, data: bytes = b"", trailers: Mapping[str, str] = NOTHING) -> None:
        """Ends the answer, with a last piece or none, and with trailers where it has some."""
        if data:
            await self.send(data)
        await self.close()
        await self._tell_head()
        for piece in self._held:  # it names no response, and there is nothing to keep
            await self._call.send(piece)
        self._held = []
        rest = b"" if self._restater is None else self._restater.finish()
        await self._call.finish(rest, trailers)

    async def close(self) -> None:
        """Keeps an answer that does not come to its end as what it is. May be called again."""
        if self._is_begun and not self._is_settled:
            status = "cancelled" if self._call.is_gone else "incomplete"
            await self._settle(interrupt_body(self._hearer.compose(), status))


def _read_response(body: bytes) -> Fields | None:
    try:
        response: Any = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    is_one = isinstance(response, dict) and isinstance(response.get("id"), str)
    return response if is_one else None
