"""A second vibe-llms for the provider ``remote``: a gateway in this process or in a thread."""

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
    """Gateway that serves the models of an application, without retries.

    Attributes:
        settings: Settings of the application, as from its command line.
        adapt: Replaces a model, so that a test can simulate one.
        url: Its address while it runs.
        bodies: The bodies of finished requests, in the order of their ends.
        request_headers: The headers of each request.
        records: The gateway's record of each finished request.
        application: The application while it runs.
    """

    settings: Mapping[str, Any]
    adapt: Callable[[ConverserModel], ConverserModel] = _keep
    url: str = ""
    bodies: list[Any] = attrs.field(factory=list)
    request_headers: list[list[tuple[bytes, bytes]]] = attrs.field(factory=list)
    records: list[CallRecord] = attrs.field(factory=list)
    application: Any = None

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[RemoteGateway]:
        """Serve within the caller's event loop."""
        limits = {"attempts": 1, **self.settings.get("limits", {})}
        application = Application.load(command_line={**self.settings, "limits": limits})
        # A clock without waits: other clients of a vendor need not wait for its rate limit.
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
            self.request_headers.append(scope.get("headers", []))

            async def receive_and_keep() -> MutableMapping[str, Any]:
                nonlocal body
                message: MutableMapping[str, Any] = await receive()
                body += message.get("body", b"")
                return message

            await service(scope, receive_and_keep, send)
            if body:
                self.bodies.append(msgspec.json.decode(body))

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
    """Open a world whose provider ``remote`` uses a remote gateway."""
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
