"""The MCP server, independent of its transport."""

from __future__ import annotations

import asyncio
import logging
import secrets
import warnings
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError

from vibe_llms.exceptions import LimitError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.version import __version__
from vibe_llms.invocables.mcp.serving.approving import CallApprover, Context
from vibe_llms.invocables.mcp.serving.attending import NOT_FOUND, Attendant
from vibe_llms.invocables.mcp.serving.callers import access_subject, is_modern
from vibe_llms.invocables.mcp.serving.catalogue import EnsembleCatalogue, Lists, Page, turn_page
from vibe_llms.invocables.mcp.serving.describing import adapt_tool
from vibe_llms.invocables.mcp.serving.resource_subscriptions import Subscriptions, notify_each
from vibe_llms.invocables.mcp.serving.shares import Shares, find_client
from vibe_llms.invocables.mcp.serving.waiting import WaitingRoom
from vibe_llms.invocables.registry import Registry

_LOGGER: Final = logging.getLogger(__name__)

NAME: Final = "vibe-llms"


@frozen(kw_only=True)
class HostLimits:
    """Limits of the resources that are held for clients.

    Attributes:
        waiting: Maximum number of calls that wait for their clients' answers. Of these, and of
            ``subscriptions``, one client gets at most as many as remain free for other clients.
        wait_seconds: Timeout of one answer.
        subscriptions: Maximum number of watched resources, and of open streams of changes.
        can_wait: True if the repeated request of a client always reaches this process.
    """

    waiting: int = 1_000
    wait_seconds: float = 600.0
    subscriptions: int = 1_000
    can_wait: bool = True


class ToolServer(Server[Any]):
    """Serves the content of a registry's ensembles.

    Args:
        registry: The offered ensembles. The owner of the registry connects and disconnects it.
        call_approver: Asked about calls that need an approval.
        secret: The key that signs the state which clients without sessions return. All processes
            that serve one address must share one key.
        limits: Limits of the resources that are held for clients.
    """

    def __init__(
        self,
        registry: Registry,
        call_approver: CallApprover,
        *,
        secret: bytes | None = None,
        limits: HostLimits | None = None,
    ) -> None:
        limits = limits or HostLimits()
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus, max_subscriptions=limits.subscriptions)
        self._streams = Shares(
            LimitError(limit="sessions.subscriptions", value=limits.subscriptions),
            "Too many streams of changes are open",
        )
        self._registry = registry
        self._catalogue = EnsembleCatalogue(registry)
        self._announced_lists = Lists()
        self._waiting = WaitingRoom(limits.waiting, limits.wait_seconds)
        self._subscriptions = Subscriptions(
            self._bus, self._catalogue.find_resource, limits.subscriptions
        )
        self._connections: WeakSet[Connection] = WeakSet()
        self._levels: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        self._announcing: asyncio.Task[None] | None = None
        self._is_outdated = False
        attendant = Attendant(
            registry=registry,
            catalogue=self._catalogue,
            call_approver=call_approver,
            waiting=self._waiting,
            levels=self._levels,
            can_wait=limits.can_wait,
        )
        with warnings.catch_warnings():
            # Setting a log level is deprecated, but part of the protocol with sessions.
            warnings.simplefilter("ignore", MCPDeprecationWarning)
            super().__init__(NAME, version=__version__, **self._produce_handlers(attendant))
        security = RequestStateSecurity(
            keys=[secret or secrets.token_bytes(32)],
            ttl=limits.wait_seconds,
            bind_principal=access_subject,
        )
        self.middleware.append(_hide_internal_errors)
        self.middleware.append(RequestStateBoundary(security, default_audience=NAME))
        self.add_notification_handler(
            "notifications/initialized", types.NotificationParams, self._add_session
        )
        registry.listen(self._announce)

    def _produce_handlers(self, attendant: Attendant) -> dict[str, Any]:
        """Return the handlers of the package's methods."""
        return {
            "on_list_tools": self._list_tools,
            "on_call_tool": attendant.call,
            "on_list_resources": self._list_resources,
            "on_list_resource_templates": self._list_templates,
            "on_read_resource": attendant.read,
            "on_subscribe_resource": self._subscribe,
            "on_unsubscribe_resource": self._unsubscribe,
            "on_list_prompts": self._list_prompts,
            "on_get_prompt": attendant.get_prompt,
            "on_completion": attendant.complete,
            "on_set_logging_level": self._set_level,
            "on_subscriptions_listen": self._listen,
            "get_tool_input_schema": self._find_schema,
        }

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *others: Any, **named: Any
    ) -> Any:
        """Declare that changes of the lists are announced, which the package cannot know."""
        options = notification_options or NotificationOptions(
            tools_changed=True, resources_changed=True, prompts_changed=True
        )
        return super().create_initialization_options(options, *others, **named)

    async def begin(self) -> None:
        """Survey the ensembles, once the registry is connected."""
        self._announced_lists = await self._catalogue.refresh()
        self.instructions = self._catalogue.compose_instructions()

    async def end(self) -> None:
        """Stop the background tasks."""
        await self._waiting.close()
        await self._subscriptions.close()

    async def _list_tools(self, context: Context, params: Page) -> types.ListToolsResult:
        lists = await self._catalogue.refresh()
        page, cursor = turn_page(lists.tools, params, lambda each: each.name)
        tools = [adapt_tool(tool, is_modern=is_modern(context)) for tool in page]
        return types.ListToolsResult(tools=tools, next_cursor=cursor)

    async def _list_resources(self, context: Context, params: Page) -> types.ListResourcesResult:
        lists = await self._catalogue.refresh()
        page, cursor = turn_page(lists.resources, params, lambda each: each.uri)
        return types.ListResourcesResult(resources=page, next_cursor=cursor)

    async def _list_templates(
        self, context: Context, params: Page
    ) -> types.ListResourceTemplatesResult:
        lists = await self._catalogue.refresh()
        page, cursor = turn_page(lists.templates, params, lambda each: each.uri_template)
        return types.ListResourceTemplatesResult(resource_templates=page, next_cursor=cursor)

    async def _list_prompts(self, context: Context, params: Page) -> types.ListPromptsResult:
        lists = await self._catalogue.refresh()
        page, cursor = turn_page(lists.prompts, params, lambda each: each.name)
        return types.ListPromptsResult(prompts=page, next_cursor=cursor)

    async def _set_level(
        self, context: Context, params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        """Store the log level of a session."""
        self._levels[context.session._connection] = params.level
        return types.EmptyResult()

    async def _subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        if self._catalogue.find_resource(params.uri) is None:
            raise MCPError(NOT_FOUND, "Resource not found", {"uri": params.uri})
        client = find_client(context)
        self._subscriptions.subscribe(params.uri, context.session._connection, client)
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self._subscriptions.unsubscribe(params.uri, context.session._connection)
        return types.EmptyResult()

    async def _listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        client, uris = find_client(context), params.notifications.resource_subscriptions or ()
        with self._streams.hold(client):
            async with self._subscriptions.hold(uris, client):
                return await self.listening(context, params)

    def _find_schema(self, name: str) -> JsonObject | None:
        try:
            return self._registry.access(name).schema
        except UnknownNameError:
            return None

    async def _add_session(self, context: Context, params: types.NotificationParams) -> None:
        """Store a session, for announcements of changes while it lasts."""
        self._connections.add(context.session._connection)  # not public in the package

    def _announce(self) -> None:
        """Start announcing changes; called in the event loop when the lists may have changed."""
        self._catalogue.mark_outdated()
        self._is_outdated = True
        if self._announcing is None:  # a running task checks again
            self._announcing = asyncio.ensure_future(self._announce_changes())

    async def _announce_changes(self) -> None:
        """Announce changes until no more are reported."""
        try:
            while self._is_outdated:
                self._is_outdated = False
                await self._announce_change()
        finally:
            self._announcing = None

    async def _announce_change(self) -> None:
        before, now = self._announced_lists, await self._catalogue.refresh()
        self._announced_lists = now
        if before.tools != now.tools:
            await self._send_announcement(ToolsListChanged(), Connection.send_tool_list_changed)
        if (before.resources, before.templates) != (now.resources, now.templates):
            await self._send_announcement(
                ResourcesListChanged(), Connection.send_resource_list_changed
            )
        if before.prompts != now.prompts:
            await self._send_announcement(PromptsListChanged(), Connection.send_prompt_list_changed)

    async def _send_announcement(self, event: Any, send: Callable[[Connection], Any]) -> None:
        await self._bus.publish(event)
        await notify_each(self._connections, send)


async def _hide_internal_errors(
    ctx: ServerRequestContext[Any, Any], call_next: CallNext
) -> HandlerResult:
    """Log internal errors, and hide their details from the client."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        _LOGGER.error("%s failed: %s", ctx.method, error, exc_info=error)
        raise MCPError(INTERNAL_ERROR, "Internal error; see the server's log") from None
