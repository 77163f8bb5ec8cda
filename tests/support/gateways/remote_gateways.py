"""Another vibe-llms to ask: a gateway with models of its own, in this process or in a thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import attrs
import msgspec

from support.gateways.gateways import serve
from vibe_llms.application import Application
from vibe_llms.daemons.gateway.making import produce_service
from vibe_llms.daemons.records import CallRecord
from vibe_llms.plugins.manager import PluginManager
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.testing.contracts.worlds import World


def _keep(model: ConverserModel) -> ConverserModel:
    return model


@attrs.define
class RemoteGateway:
    """Serves the models of an application; nothing is retried, as a gateway does by itself.

    Attributes:
        settings: Of the application, as from its command line.
        adapt: Replaces a model by another, where a test wants to play one.
        url: Where it is, once it runs.
        asked: The body of each request that has one, in the order of their ends.
        heads: The headers of each request.
        records: What the gateway knows of each request that is over.
        application: While it runs.
    """

    settings: Mapping[str, Any]
    adapt: Callable[[ConverserModel], ConverserModel] = _keep
    url: str = ""
    asked: list[Any] = attrs.field(factory=list)
    heads: list[list[tuple[bytes, bytes]]] = attrs.field(factory=list)
    records: list[CallRecord] = attrs.field(factory=list)
    application: Any = None

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[RemoteGateway]:
        """Serve within the event loop of whoever asks."""
        limits = {"attempts": 1, **self.settings.get("limits", {})}
        application = Application.load(command_line={**self.settings, "limits": limits})
        # What a vendor wants to be waited for, its other clients do not wait for here.
        application.plugins = PluginManager(
            configuration=application.configuration, clock=HurriedClock()
        )
        self.application, access = application, application.access_model

        async def access_adapted(address: str = "", **more: Any) -> ConverserModel:
            return self.adapt(await access(address, **more))

        application.access_model = access_adapted  # type: ignore[method-assign]
        application.find_model = lambda address, holder: None  # type: ignore[method-assign]
        service = produce_service(application, listeners=(self.records.append,))

        async def listen(scope: Any, receive: Any, send: Any) -> None:
            body = b""
            self.heads.append(scope.get("headers", []))

            async def receive_and_keep() -> MutableMapping[str, Any]:
                nonlocal body
                message: MutableMapping[str, Any] = await receive()
                body += message.get("body", b"")
                return message

            await service(scope, receive_and_keep, send)
            if body:
                self.asked.append(msgspec.json.decode(body))

        async with serve(listen) as self.url:  # type: ignore[arg-type]  # any application will do
            yield self

    @contextlib.contextmanager
    def run_in_thread(self) -> Iterator[RemoteGateway]:
        """Serve in a thread with a loop of its own."""
        loop, ready, leave = asyncio.new_event_loop(), threading.Event(), asyncio.Event()

        async def serve_on() -> None:
            async with self.run():
                ready.set()
                await leave.wait()

        thread = threading.Thread(target=loop.run_until_complete, args=(serve_on(),))
        thread.start()
        try:
            assert ready.wait(60)
            yield self
        finally:
            loop.call_soon_threadsafe(leave.set)
            thread.join()
            loop.close()


@contextlib.asynccontextmanager
async def open_remote_world(
    directory: Path, far: RemoteGateway, model: str = "scripted:echo", **settings: Any
) -> AsyncIterator[World]:
    """Open a world whose provider ``remote`` asks a far side."""
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
