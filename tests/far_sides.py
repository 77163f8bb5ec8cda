"""Another vibe-llms to ask: a small server that answers in ``converse`` with models of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from aiohttp import web

from vibe_llms.application import Application
from vibe_llms.dialects import converse
from vibe_llms.dialects.answering import ErrorAnswer
from vibe_llms.events.stream import LossEvent, ResponseFailedEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.requests import Request
from vibe_llms.plugins.manager import PluginManager
from vibe_llms.providers.interfaces import ConverserModel, ModelDescriptor
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.testing.contracts.worlds import World


@attrs.define
class FarSide:
    """Serves the models of an application; nothing is retried, as a gateway does by itself.

    Attributes:
        settings: Of the application, as from its command line.
        listed: The providers whose models are told of.
        url: Where it is, once it runs.
        asked: Every request as it arrived, with its body.
        ended: How each streamed answer ended: ``whole``, ``failed`` or ``left``.
        application: While it runs.
        adapt: Replaces a model by another, where a test wants to play one.
    """

    settings: Mapping[str, Any]
    listed: Sequence[str] = ()
    url: str = ""
    asked: list[tuple[str, Any]] = attrs.field(factory=list)
    ended: list[str] = attrs.field(factory=list)
    adapt: Callable[[ConverserModel], ConverserModel] = lambda model: model
    application: Any = None

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[FarSide]:
        """Serves within the event loop of whoever asks."""
        limits = {"attempts": 1, **self.settings.get("limits", {})}
        application = Application.load(command_line={**self.settings, "limits": limits})
        # What a vendor wants to be waited for, its other clients do not wait for here.
        application.plugins = PluginManager(
            configuration=application.configuration, clock=HurriedClock()
        )
        self.application = application
        server = web.Application(client_max_size=2**28)
        server.router.add_post("/v1/converse", self._guard(self._converse))
        server.router.add_post("/v1/converse/count", self._guard(self._count))
        server.router.add_get("/v1/converse/models", self._guard(self._survey))
        runner = web.AppRunner(server, handler_cancellation=True, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield self
        finally:
            await runner.cleanup()
            await self.application.close()

    @contextlib.contextmanager
    def run_in_thread(self) -> Iterator[FarSide]:
        """Serves in a thread with a loop of its own."""
        loop, ready, leave = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

        async def serve() -> None:
            async with self.run():
                ready.set()
                await leave.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
        thread.start()
        try:
            assert ready.wait(20)
            yield self
        finally:
            loop.call_soon_threadsafe(leave.set)
            thread.join()
            loop.close()

    def _guard(self, handle: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        async def guarded(asked: web.Request) -> web.StreamResponse:
            try:
                answer: web.StreamResponse = await handle(asked)
            except ConverseError as error:
                return _refuse(converse.nativize_error(error))
            return answer

        return guarded

    async def _read(self, asked: web.Request) -> tuple[Any, Request, ConverserModel]:
        native = await asked.json()
        self.asked.append((asked.path, native))
        request = converse.normalize_request(native).value
        model = await self.application.access_model(request.model)
        return native, request, self.adapt(model)

    async def _count(self, asked: web.Request) -> web.Response:
        _, request, model = await self._read(asked)
        count = await model.tokenizer.count_request(request, model.descriptor)
        return web.json_response(converse.nativize_count(count))

    async def _survey(self, asked: web.Request) -> web.Response:
        self.asked.append((asked.path_qs, None))
        found: list[ModelDescriptor] = []
        if "model" in asked.query:
            model = await self.application.access_model(asked.query["model"])
            found.append(model.descriptor)
        else:
            for name in self.listed:
                found += await self.application.survey_models(name)
        return web.json_response(converse.nativize_models(found))

    async def _converse(self, asked: web.Request) -> web.StreamResponse:
        native, request, model = await self._read(asked)
        if native["stream"]:
            return await self._stream(asked, native, request, model)
        response = await model.converse(request, stream=False)
        return web.json_response(converse.nativize_response(response).value)

    async def _stream(
        self, asked: web.Request, native: Any, request: Request, model: ConverserModel
    ) -> web.StreamResponse:
        writer = converse.StreamWriter(native, model=request.model)
        answer = web.StreamResponse(headers={"content-type": writer.content_type})
        waiting = b""
        ended = "left"
        try:
            async with model.stream(request) as stream:
                async for event in stream:
                    if isinstance(event, ResponseFailedEvent):
                        ended = "failed"
                        if not answer.prepared:
                            raise event.error
                        await answer.write(writer.fail(event.error))
                        break
                    waiting += writer.write(event)
                    if isinstance(event, LossEvent):
                        continue  # it may still come to a refusal with a status
                    if not answer.prepared:
                        await answer.prepare(asked)
                    await answer.write(b": alive\n\n" + waiting)
                    waiting = b""
                else:
                    ended = "whole"
        finally:
            self.ended.append(ended)
        return answer


def _refuse(answer: ErrorAnswer) -> web.Response:
    return web.json_response(answer.body, status=answer.status, headers=answer.headers)


@contextlib.asynccontextmanager
async def ask_far(
    directory: Path, far: FarSide, model: str = "scripted:echo", **settings: Any
) -> AsyncIterator[World]:
    """Opens a world whose provider ``remote`` asks a far side."""
    async with (
        far.run(),
        World(
            module="vibe_llms.providers.gateway",
            name="remote",
            model_name=model,
            settings={"base_url": far.url, **settings},
            directory=directory / "near",
        ) as world,
    ):
        yield world
