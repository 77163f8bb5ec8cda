"""Watchers of a server's resources, in protocol versions with and without sessions."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import Stage
from vibe_llms.invocables.mcp.kit import produce_failure
from vibe_llms.invocables.mcp.settings import McpServer

if TYPE_CHECKING:
    from mcp.client.client import Client

_UNSUBSCRIBE_SECONDS: Final = 2.0


class Watchers:
    """Subscribers to changes of one server's resources.

    Args:
        server: The settings of the server.
        request: Sends a request to the server, as :meth:`.ensembles.McpEnsemble.request` does.
    """

    def __init__(self, server: McpServer, request: Callable[..., Awaitable[Any]]) -> None:
        self._server = server
        self._ask = functools.partial(request, seconds=server.answer_seconds)
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._subscribed: Client | None = None

    @asynccontextmanager
    async def watch(self, uri: str) -> AsyncIterator[AsyncIterator[None]]:
        """Watch one resource for changes, if the server reports them.

        Yields:
            An iterator that yields at each change; changes between two steps count as one.
            It ends, or raises, when the server stops reporting.

        Raises:
            EnsembleError: On entering, the server does not report changes; later, it has stopped.
        """
        client = await self._ask(_access_client, f"watch {uri}")
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        open_changes = self._listen if is_modern else self._subscribe
        async with open_changes(client, uri) as changes:
            yield changes

    @asynccontextmanager
    async def _listen(self, client: Client, uri: str) -> AsyncIterator[AsyncIterator[None]]:
        """Open a separate stream, for servers without sessions."""
        name = self._server.name
        async with AsyncExitStack() as stack:
            try:
                events = await stack.enter_async_context(
                    client.listen(resource_subscriptions=[uri])
                )
            except Exception as error:
                raise produce_failure(name, f"watch {uri}", error, stage=Stage.EXECUTE) from error
            yield await stack.enter_async_context(aclosing(_pass_on(events, name, uri)))

    @asynccontextmanager
    async def _subscribe(self, client: Client, uri: str) -> AsyncIterator[AsyncIterator[None]]:
        """Subscribe at a server with sessions, and unsubscribe at the end."""
        await self._ask(lambda client: _set_subscribed(client, uri, True), f"watch {uri}")
        self._subscribed = client
        changed = asyncio.Event()
        self._waiting.setdefault(uri, set()).add(changed)
        try:
            async with aclosing(_wait_for(changed)) as changes:
                yield changes
        finally:
            self._waiting[uri].discard(changed)
            # A server does not count subscribers, so only the last watcher unsubscribes.
            if not self._waiting[uri]:
                del self._waiting[uri]
                with suppress(Exception):  # a server that has ended has no subscriptions
                    async with asyncio.timeout(_UNSUBSCRIBE_SECONDS):
                        await _set_subscribed(client, uri, False)

    async def _subscribe_again(self, client: Client) -> None:
        self._subscribed = client
        # A copy: subscribers may change while the server is asked.
        for uri, watchers in list(self._waiting.items()):
            await _set_subscribed(client, uri, True)
            for changed in watchers:
                changed.set()

    async def renew(self) -> None:
        """Renew the subscriptions at a restarted server; resources may have changed in between.

        Raises:
            EnsembleError: The server does not answer.
        """
        action = "watch its resources"
        if self._waiting and await self._ask(_access_client, action) is not self._subscribed:
            await self._ask(self._subscribe_again, action)

    def notice(self, message: Any) -> None:
        """Handle an announcement of the server."""
        if message.method == "notifications/resources/updated":
            for changed in self._waiting.get(message.params.uri, ()):
                changed.set()


async def _access_client(client: Client) -> Client:
    return client


async def _set_subscribed(client: Client, uri: str, is_subscribed: bool) -> None:
    """Subscribe or unsubscribe; only servers with sessions need this."""
    import warnings

    from mcp.shared.exceptions import MCPDeprecationWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MCPDeprecationWarning)  # the newer protocol has another way
        session = client.session
        change = session.subscribe_resource if is_subscribed else session.unsubscribe_resource
        sending = change(uri)
    await sending


async def _wait_for(changed: asyncio.Event) -> AsyncGenerator[None]:
    while True:
        await changed.wait()
        # Clear before yielding, so that a change while the subscriber is busy wakes it again.
        changed.clear()
        yield


async def _pass_on(events: AsyncIterator[Any], server: str, uri: str) -> AsyncGenerator[None]:
    """Yield once for each event. Raises EnsembleError when the stream is interrupted."""
    from mcp.client.subscriptions import SubscriptionLost
    from mcp.shared.exceptions import MCPError

    try:
        async for _ in events:
            yield
    except (SubscriptionLost, MCPError) as error:
        raise produce_failure(server, f"watch {uri}", error, stage=Stage.EXECUTE) from error
