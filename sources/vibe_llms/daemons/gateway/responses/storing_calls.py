"""A response that is stored before the client learns its id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from vibe_llms.daemons.asgi import JSON, NOTHING, HttpCall
from vibe_llms.daemons.gateway.responses.response_bodies import Fields, interrupt_body
from vibe_llms.daemons.gateway.responses.response_streams import ContinuationWriter, StreamReader
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.json_errors import UNREADABLE


class ResponseSink(Protocol):
    """Stores a response: either complete (:meth:`store`), or the beginning and later the end."""

    @property
    def needs_answer(self) -> bool:
        """True if the sink stores the whole answer, not only its id."""

    @property
    def continuation(self) -> Fields:
        """Fields to add to a streamed response: the response or conversation that it continues."""

    async def begin(self, response: Fields) -> None:
        """Store the beginning of a response. Raises StoreError."""

    async def finish(self, response: Fields) -> None:
        """Store the end of a response. Raises StoreError."""

    async def store(self, response: Fields) -> Fields:
        """Store a complete response; return its final body. Raises StoreError."""


class StoringCall(HttpCall):
    """Passes a response on to another call, and stores it.

    Args:
        call: The client's call.
        sink: Stores the response.
        reader: Reads a streamed answer.
    """

    __slots__ = (
        "_call",
        "_continuation_writer",
        "_head",
        "_held",
        "_is_begun",
        "_is_finished",
        "_reader",
        "_sink",
    )

    def __init__(self, call: HttpCall, sink: ResponseSink, reader: StreamReader) -> None:
        super().__init__(call.scope, call._receive, call._send, request_id=call.request_id, limit=0)
        self._call = call
        self._sink = sink
        self._reader = reader
        self._head: tuple[int, Mapping[str, str]] | None = None
        self._held: list[bytes] = []
        self._continuation_writer = (
            ContinuationWriter(sink.continuation) if sink.continuation else None
        )
        self._is_begun = False
        self._is_finished = False

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], *, content_type: str = JSON
    ) -> None:
        """Store a complete response, then send it."""
        if status < 400:
            response = _read_response(body)
            if response is not None:
                stored = await self._sink.store(response)
                if stored is not response:
                    body = msgspec.json.encode(stored)
        await self._call.answer(status, body, headers, content_type=content_type)

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Hold back the status and headers until the response is stored."""
        self.status = status
        self._head = (status, headers)

    async def send(self, data: bytes) -> None:
        """Send a piece; first store the beginning or end of the response that it contains."""
        if not self._is_begun or (self._sink.needs_answer and not self._is_finished):
            self._reader.feed(data)
        if not self._is_begun:
            self._held.append(data)
            if self._reader.response is None:
                return
            try:
                await self._sink.begin(self._reader.response)
            except StoreError:  # the client has received nothing, not even an id
                self.status, self._head, self._held = 0, None, []
                raise
            self._is_begun = True
            data = b"".join(self._held)
            self._held = []
        await self._send_head()
        if self._reader.is_over and not self._is_finished:
            await self._finish_sink(self._reader.compose())
        await self._pass_on(data)

    async def _pass_on(self, data: bytes) -> None:
        if self._continuation_writer is not None:
            data = self._continuation_writer.feed(data)
            if not data:
                return
        await self._call.send(data)

    async def _send_head(self) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            await self._call.begin(*head)

    async def _finish_sink(self, response: Fields) -> None:
        self._is_finished = True
        if self._sink.needs_answer:
            await self._sink.finish(response)

    async def finish(self, data: bytes = b"", trailers: Mapping[str, str] = NOTHING) -> None:
        """End the response, with an optional last piece and trailers."""
        if data:
            await self.send(data)
        await self.close()
        await self._send_head()
        for piece in self._held:  # an error, which is not stored
            await self._call.send(piece)
        self._held = []
        rest = b"" if self._continuation_writer is None else self._continuation_writer.finish()
        await self._call.finish(rest, trailers)

    async def close(self) -> None:
        """Store an interrupted response as such. May be called twice."""
        if self._is_begun and not self._is_finished:
            status = "cancelled" if self._call.is_gone else "incomplete"
            await self._finish_sink(interrupt_body(self._reader.compose(), status))


def _read_response(body: bytes) -> Fields | None:
    try:
        response: Any = msgspec.json.decode(body)
    except UNREADABLE:
        return None
    identity = response.get("id") if isinstance(response, dict) else None
    return response if identity and isinstance(identity, str) else None
