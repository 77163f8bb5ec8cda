"""Server as a program: signals, and a report when it is ready."""

from __future__ import annotations

import asyncio
import logging
import resource
import signal
import socket
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final, TypeAlias

from vibe_llms.daemons.server.asgi_types import Application
from vibe_llms.daemons.server.binding import check_binding, describe_sockets, open_shares
from vibe_llms.daemons.server.serving import Server
from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.daemons.server.worker_processes import Supervisor

_logger = logging.getLogger(__name__)

Produce: TypeAlias = Callable[[], Application]
"""Factory of the application; called in each worker process, before its event loop runs."""

_OTHER_FILES: Final = 128
"""Minimum number of files that a process opens in addition to its clients' connections."""


def run(
    produce: Produce,
    settings: ServerSettings,
    *,
    is_guarded: bool,
    on_ready: Callable[[Sequence[str]], object] | None = None,
    on_reload: Callable[[Application], object] | None = None,
) -> None:
    """Serve an application until a signal stops it.

    After SIGTERM or SIGINT, active requests may continue for ``drain_seconds``; a second signal
    stops at once. SIGHUP reloads the TLS files, and calls ``on_reload``.

    Args:
        produce: Factory of the application, called in each worker process.
        is_guarded: Whether the application authenticates its callers.
        on_ready: Called with the URLs as soon as requests are answered; with several workers, in
            the supervisor.
        on_reload: Called with the application, in the event loop that serves it.

    Raises:
        ConfigurationError: The server would be open to other machines, or cannot listen.
        ConverseError: The application reports that it cannot start.
    """
    check_binding(settings, is_guarded=is_guarded)
    allow_connections(settings)
    shares = open_shares(settings)
    urls = describe_sockets(settings, shares[0])

    def run_worker(sockets: Sequence[socket.socket], report_ready: Callable[[], object]) -> None:
        with asyncio.Runner(loop_factory=find_loop_factory()) as runner:
            runner.run(
                serve(
                    produce(),
                    settings,
                    sockets=sockets,
                    on_ready=lambda _: report_ready(),
                    on_reload=on_reload,
                )
            )

    def report_urls() -> None:
        if on_ready is not None:
            on_ready(urls)

    try:
        if len(shares) == 1:
            run_worker(shares[0], report_urls)
        else:
            seconds = settings.drain_seconds
            Supervisor(shares, run_worker, drain_seconds=seconds, on_ready=report_urls).run()
    finally:
        for listening in chain.from_iterable(shares):
            listening.close()


async def serve(
    application: Application,
    settings: ServerSettings,
    *,
    sockets: Sequence[socket.socket] | None = None,
    on_ready: Callable[[Sequence[str]], object] | None = None,
    on_reload: Callable[[Application], object] | None = None,
) -> None:
    """Run the server like :func:`run`, but in one process and in the current event loop."""
    loop = asyncio.get_running_loop()
    must_stop = asyncio.Event()
    must_stop_at_once = asyncio.Event()

    def stop() -> None:
        if must_stop.is_set():
            must_stop_at_once.set()
        must_stop.set()

    server = Server(application, settings, sockets=sockets)

    def reload() -> None:
        server.reload()
        if on_reload is not None:
            on_reload(application)

    handlers = {signal.SIGTERM: stop, signal.SIGINT: stop, signal.SIGHUP: reload}
    for number, handle in handlers.items():
        loop.add_signal_handler(number, handle)
    try:
        async with server:
            if on_ready is not None:
                on_ready(server.urls)
            await must_stop.wait()
            _logger.info("Stopping: no new connections; requests under way finish")
            await _drain(server, must_stop_at_once)
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def _drain(server: Server, must_stop_at_once: asyncio.Event) -> None:
    """Wait until requests under way have finished, or until a second signal."""
    draining = asyncio.create_task(server.drain())
    waiting = asyncio.create_task(must_stop_at_once.wait())
    await asyncio.wait({draining, waiting}, return_when=asyncio.FIRST_COMPLETED)
    for task in (draining, waiting):
        task.cancel()
    await asyncio.gather(draining, waiting, return_exceptions=True)


def find_loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return the factory of the fastest installed event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def allow_connections(settings: ServerSettings) -> None:
    """Raise the limit of open files to the number that the connections may need, if allowed."""
    # A request may have a separate upstream connection.
    needed = 2 * settings.connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        needed = min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
