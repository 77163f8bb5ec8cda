"""Background responses: started, read, followed and cancelled by their ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.daemons.asgi import HttpCall
from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.endings import Endings, end_response
from vibe_llms.daemons.gateway.responses.inner_calls import SINK_KEY, InnerCall
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase
from vibe_llms.daemons.gateway.responses.response_bodies import Fields
from vibe_llms.daemons.gateway.responses.rows import GatewayResponse
from vibe_llms.daemons.gateway.responses.storing_calls import ResponseSink
from vibe_llms.daemons.server.asgi_types import Application, Message
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.sse import SseFramer

_POLL_SECONDS: Final = 1.0
"""Interval for reading changes of other processes."""


class BackgroundRun:
    """One background response.

    Attributes:
        frames: Events of the response so far, each with a number.
        is_over: Whether it has ended.
        status: HTTP status of its answer; 0 before.
    """

    def __init__(self, identity: str, limits: Limits) -> None:
        self.identity = identity
        self.frames: list[tuple[int, bytes]] = []
        self.is_over = False
        self._limits = limits
        self._changed = asyncio.Event()
        self._framer: SseFramer | None = None
        self._whole: list[bytes] = []
        self.status = 0

    async def receive(self, message: Message) -> None:
        """Receive an ASGI message of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = dict(message["headers"])
            if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
                self._framer = SseFramer(self._limits)
            return
        data = message.get("body", b"")
        if self._framer is None:
            self._whole.append(data)
            return
        for frame in self._framer.feed(data):
            self._add_frame(frame.data)
        self._notify()

    def _add_frame(self, data: bytes) -> None:
        try:
            event = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return  # [DONE]
        if not isinstance(event, dict):
            return  # not an event: every event is an object
        if isinstance(event.get("response"), dict):
            event["response"].update(id=self.identity, background=True)
        number = int(event.get("sequence_number", len(self.frames)))
        name = str(event.get("type", "")).encode()
        self.frames.append(
            (number, b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(event)))
        )

    def end(self) -> None:
        """Mark the run as ended."""
        self.is_over = True
        self._notify()

    def _notify(self) -> None:
        """Wake all readers that wait for further events."""
        self._changed.set()
        self._changed = asyncio.Event()

    def read_error(self) -> Fields:
        """Return the error of a refused request."""
        try:
            body = msgspec.json.decode(b"".join(self._whole))
            message = body["error"]["message"]
        except (*UNREADABLE, KeyError, TypeError):
            message = "The answer was interrupted."
        return {"code": "server_error", "message": message}

    async def follow(self, after: int) -> AsyncIterator[bytes]:
        """Yield the events after a number as they arrive."""
        index = 0
        while True:
            changed = self._changed
            while index < len(self.frames):
                number, data = self.frames[index]
                index += 1
                if number > after:
                    yield data
            if self.is_over:
                return
            await changed.wait()


class Background:
    """The background responses of this process.

    Args:
        registry: The database.
        limits: Limits of answers.
        endings: Responses whose end cannot be written.
    """

    def __init__(self, registry: ResponseDatabase, limits: Limits, endings: Endings) -> None:
        self._registry = registry
        self._endings = endings
        self._limits = limits
        self._runs: dict[str, tuple[BackgroundRun, InnerCall, asyncio.Task[None]]] = {}
        self.service: Application | None = None

    def start(
        self, call: HttpCall, body: bytes, sink: ResponseSink | None, identity: str
    ) -> BackgroundRun:
        """Start a response that is in the registry.

        Args:
            call: The client's call, whose scope the response is processed with.
            body: The request.
            sink: Receives the finished response and stores it; ``None`` to store nothing.
            identity: The id of the response.
        """
        inner = InnerCall(call.scope, body, entries={SINK_KEY: sink})
        run = BackgroundRun(identity, self._limits)
        task = asyncio.create_task(self._perform(run, inner))
        self._runs[identity] = (run, inner, task)
        return run

    def find(self, identity: str) -> BackgroundRun | None:
        """Return a response that is running in this process."""
        if identity not in self._runs:
            return None
        run, _, _ = self._runs[identity]
        return run

    async def cancel(self, response: GatewayResponse) -> None:
        """Cancel a response; one of another process ends within seconds."""
        if response.id in self._runs:
            _, inner, task = self._runs[response.id]
            inner.disconnect()
            await asyncio.wait({task})
            return
        cancelled = end_response(response, "cancelled")
        await self._registry.perform(partial(rows.end_response, response=cancelled))

    async def _perform(self, run: BackgroundRun, inner: InnerCall) -> None:
        assert self.service is not None
        watcher = asyncio.create_task(self._watch_row(run, inner))
        try:
            await inner.perform(self.service, run.receive)
        except Exception:  # logged by the service; the response is marked as interrupted
            run.status = run.status or 500
        finally:
            watcher.cancel()
            try:
                await self._settle(run)
            except Exception as error:  # with any error, the response must end for its readers
                self._endings.add(run.identity)
                if not isinstance(error, StoreError):
                    raise
            finally:
                run.end()
                del self._runs[run.identity]

    async def _watch_row(self, run: BackgroundRun, inner: InnerCall) -> None:
        """Cancel the response once another process has cancelled or deleted it."""
        work = partial(rows.find_response, identity=run.identity)
        while True:
            await pause()
            try:
                found = await self._registry.perform(work)
            except StoreError:  # try again next time
                continue
            if found is None or not found.is_running:  # deleted, or cancelled
                inner.disconnect()
                return

    async def _settle(self, run: BackgroundRun) -> None:
        """Write the events, and the end of the response unless the sink has written the end."""
        refusal = run.read_error() if run.status >= 400 else None
        has_begun = run.status > 0  # otherwise it was cancelled before its answer began

        def work(db: Any) -> None:
            found = rows.find_response(db, run.identity)
            if found is None:
                return
            if found.is_running:
                if refusal is not None:
                    failed = {**found.body, "error": refusal}
                    found = end_response(attrs.evolve(found, body=failed), "failed")
                else:
                    found = end_response(found, "incomplete" if has_begun else "cancelled")
                rows.write_response(db, found)
            if run.frames:
                data = msgspec.json.encode([(n, text.decode()) for n, text in run.frames])
                rows.write_frames(db, run.identity, data)

        await self._registry.perform(work)

    async def read_frames(self, identity: str) -> list[tuple[int, str]] | None:
        """Return the numbered events of a completed response; an empty list before its end.

        Returns:
            ``None`` if the response was not requested as a stream.
        """
        data = await self._registry.perform(partial(rows.find_frames, identity=identity))
        return None if data is None else msgspec.json.decode(data, type=list[tuple[int, str]])

    async def close(self) -> None:
        """Cancel all responses."""
        tasks = set()
        for _, inner, task in list(self._runs.values()):
            inner.disconnect()
            tasks.add(task)
        if tasks:
            await asyncio.wait(tasks)


async def pause() -> None:
    """Wait before reading changes of other processes again."""
    await asyncio.sleep(_POLL_SECONDS)


async def send_frames(call: HttpCall, frames: AsyncIterator[bytes]) -> None:
    """Send events as they arrive."""
    headers = {"content-type": "text/event-stream", "x-vibe-request-id": call.request_id}
    await call.begin(200, headers)
    async for data in frames:
        await call.send(data)
    await call.finish()
