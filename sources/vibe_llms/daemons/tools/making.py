"""Build the tools daemon from its configuration: the ensembles and the endpoint."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from vibe_llms.application import Application
from vibe_llms.daemons.arrivals import find_hosts
from vibe_llms.daemons.health import add_health
from vibe_llms.daemons.records import Listener
from vibe_llms.daemons.service import Service
from vibe_llms.daemons.tools.endpoint import OpenServer, ToolEndpoint
from vibe_llms.daemons.tools.refusing import refuse_providers
from vibe_llms.daemons.tools.settings import ToolsSettings
from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.optional_packages import find_package, needing
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.registry import Registry
from vibe_llms.plugins.specification.daemons import Authorizer

if TYPE_CHECKING:
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.mcp.serving.tool_server import ToolServer

_LOGGER: Final = logging.getLogger("vibe_llms.daemons.tools")


def produce_service(
    application: Application,
    settings: ToolsSettings,
    *,
    authorizer: Authorizer | None = None,
    listeners: Sequence[Listener] = (),
    secret: bytes | None = None,
) -> Service:
    """Build the daemon as an ASGI application.

    Args:
        application: Provides the ensembles.
        authorizer: Authorizer of requests; by default all are allowed.
        listeners: Called with the record of each completed request.
        secret: Shared secret of all processes that serve one address, at least 32 bytes; not
            needed for one process.

    Raises:
        ConfigurationError: A provider is configured.
        DependencyError: The package mcp is not installed.
    """
    refuse_providers(application.configuration)
    with needing("mcp", "mcp", "Serving tools"):
        find_package("mcp")  # imported by the first request
    endpoint = ToolEndpoint(
        partial(connect_tools, application, settings, secret=secret),
        authorizer=authorizer,
        hosts=find_hosts(settings.server.host, settings.hosts),
        request_bytes=settings.limits.request_bytes,
        sessions=settings.sessions,
        has_sessions=settings.server.workers == 1,
    )
    service = Service(
        endpoint.produce_routes(),
        limits=settings.limits,
        listeners=listeners,
        start=endpoint.start,
        stop=endpoint.stop,
        on_drain=endpoint.drain,
    )
    add_health(service, admit=endpoint.admit, needs_key=authorizer is not None)
    return service


async def serve_stdio(application: Application, settings: ToolsSettings) -> None:
    """Serve the parent process until it closes our standard input.

    Raises:
        ConfigurationError: A provider is configured.
        DependencyError: The package mcp is not installed.
        ConverseError: A named ensemble cannot be connected.
    """
    refuse_providers(application.configuration)
    with needing("mcp", "mcp", "Serving tools"):
        from vibe_llms.invocables.mcp.serving import stdio

    limits = settings.limits
    with stdio.ending_by_signals():
        async with connect_tools(application, settings) as open_server, open_server() as server:
            await stdio.serve(server, message_bytes=limits.request_bytes, requests=limits.requests)


@asynccontextmanager
async def connect_tools(
    application: Application, settings: ToolsSettings, *, secret: bytes | None = None
) -> AsyncIterator[OpenServer]:
    """Connect the ensembles, and return the function that opens the server that offers them.

    Raises:
        ConverseError: A named ensemble cannot be connected. If none was named, the failure is
            logged, and the others are offered.
    """
    policy = await application.produce_approver(settings.approver)
    is_named = bool(settings.ensembles or settings.mcp)
    ensembles = await _produce_ensembles(application, settings, is_named=is_named)
    guard = await application.access_argument_guard()
    async with Registry(ensembles, tolerant=not is_named, guard=guard) as registry:
        for failure in registry.failures.values():
            _LOGGER.warning("%s", failure)
        _ensure_known(settings.allowed, registry)
        application.restrict()  # connected ensembles are installed by now
        yield partial(_open_server, registry, policy, settings, secret)


@asynccontextmanager
async def _open_server(
    registry: Registry,
    policy: DeferringApprover | None,
    settings: ToolsSettings,
    secret: bytes | None,
) -> AsyncIterator[ToolServer]:
    await asyncio.to_thread(importlib.import_module, "vibe_llms.invocables.mcp.serving.sessions")
    from vibe_llms.invocables.mcp.serving.approving import CallApprover
    from vibe_llms.invocables.mcp.serving.tool_server import HostLimits, ToolServer

    sessions = settings.sessions
    server = ToolServer(
        registry,
        CallApprover(allowed=settings.allowed, policy=policy),
        secret=secret,
        limits=HostLimits(
            waiting=sessions.waiting,
            wait_seconds=sessions.wait_seconds,
            subscriptions=sessions.subscriptions,
            # With several processes, a client's next request may reach another process.
            can_wait=settings.server.workers == 1,
        ),
    )
    await server.begin()
    try:
        yield server
    finally:
        await server.end()


async def _produce_ensembles(
    application: Application, settings: ToolsSettings, *, is_named: bool
) -> list[Ensemble]:
    """Produce the named ensembles, or all configured ones that can be produced."""
    names = settings.ensembles if is_named else tuple(application.configuration.ensembles)
    ensembles: list[Ensemble] = []
    for name in names:
        try:
            ensembles += await application.produce_ensembles([name])
        except ConverseError as error:
            if is_named:
                raise
            _LOGGER.warning("%s: %s", name, error)
    if settings.mcp or (not is_named and application.configuration.servers):
        ensembles += await application.produce_mcp_ensembles(
            settings.mcp or None, is_passed_on=True
        )
    return ensembles


def _ensure_known(allowed: Sequence[str], registry: Registry) -> None:
    """Check that allowed invocables exist; otherwise a typo would silently allow nothing.

    Raises:
        UnknownNameError: The invocable does not exist, and cannot appear later.
    """
    known = ("all", *(each.description.name for each in registry.survey()))
    for name in allowed:
        if name in known:
            continue
        if not registry.may_grow:
            raise UnknownNameError(kind="invocable", name=name, known=known)
        _LOGGER.warning("allowed: unknown tool %r", name)
