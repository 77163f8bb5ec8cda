"""The MCP server itself, whatever it is reached by: tools listed and called, changes announced."""

from __future__ import annotations

import asyncio
import logging
import secrets
import warnings
from collections.abc import Sequence
from typing import Any, Final
from weakref import WeakSet

import attrs
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    InputRequiredResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.invocables.approvals import produce_approval_request, settle
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.serving.approving import Context, Doorkeeper
from vibe_llms.invocables.mcp.serving.calls import LOG_LEVEL, perform_call
from vibe_llms.invocables.mcp.serving.describing import describe_tool
from vibe_llms.invocables.mcp.serving.results import compose_result
from vibe_llms.invocables.outcomes import Outcome, fail
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.contents import TextualContent
from vibe_llms.plain import JsonObject
from vibe_llms.version import __version__

_LOGGER: Final = logging.getLogger(__name__)

NAME: Final = "vibe-llms"
PAGE: Final = 250
"""How many tools one page of the list has; many clients never ask for a second."""


class ToolServer(Server[Any]):
    """Offers the invocables of a registry, which is connected while it serves.

    Args:
        registry: What is offered. Whoever made it connects and disconnects it.
        doorkeeper: Is asked about calls that need an approval.
        secret: Seals what clients of the era without sessions bring back; the same in all
            processes that serve one address.
    """

    def __init__(
        self, registry: Registry, doorkeeper: Doorkeeper, *, secret: bytes | None = None
    ) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listening = ListenHandler(self._bus)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MCPDeprecationWarning)  # the older era has levels
            super().__init__(
                NAME,
                version=__version__,
                on_list_tools=self._list,
                on_call_tool=self._call,
                on_set_logging_level=self._set_level,
                on_subscriptions_listen=self.listening,
                get_tool_input_schema=self._find_schema,
            )
        self._registry = registry
        self._doorkeeper = doorkeeper
        self._connections: WeakSet[Connection] = WeakSet()
        self._reading_log: WeakSet[Connection] = WeakSet()
        self._told: tuple[Tool, ...] = ()
        self._announcing: set[asyncio.Task[None]] = set()
        security = RequestStateSecurity(
            keys=[secret or secrets.token_bytes(32)], bind_principal=_access_subject
        )
        self.middleware.append(_conceal)
        self.middleware.append(RequestStateBoundary(security, default_audience=NAME))
        self.add_notification_handler(
            "notifications/initialized", NotificationParams, self._remember
        )
        registry.listen(self._announce)

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *given: Any, **more: Any
    ) -> Any:
        """Says what the package cannot know: that changes of the list are announced."""
        options = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(options, *given, **more)

    def begin(self) -> None:
        """Takes note of what there is, now that the registry is connected."""
        self._told = self._describe()

    async def _list(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        await self._registry.refresh()
        tools = self._describe()
        start = _find_start(tools, params.cursor if params else None)
        page = list(tools[start : start + PAGE])
        is_last = start + PAGE >= len(tools)
        return ListToolsResult(tools=page, next_cursor=None if is_last else page[-1].name)

    async def _call(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        try:
            invoker = self._registry.access(params.name)
        except UnknownNameError as error:
            raise MCPError(INVALID_PARAMS, str(error)) from error
        arguments = params.arguments or {}
        try:
            settled = await self._settle(invoker, arguments, context, params)
        except ConverseError as error:
            settled = fail(str(error))
        match settled:
            case InputRequiredResult():
                return settled
            case Outcome():
                return compose_result(settled)
        outcome = await perform_call(invoker, settled, context, wants_log=self._reads_log(context))
        return compose_result(_mark_edit(outcome, arguments, settled))

    async def _settle(
        self,
        invoker: Invoker,
        arguments: JsonObject,
        context: Context,
        params: CallToolRequestParams,
    ) -> JsonObject | Outcome | InputRequiredResult:
        """Returns the arguments with which a call may be executed, or why it may not."""
        # Arguments that do not fit are refused later anyway: nobody need be asked about them.
        if not invoker.needs_approval or await invoker.examine(arguments):
            return arguments
        request = produce_approval_request(
            str(context.request_id),
            invoker.name,
            arguments,
            description=invoker.description,
            effect=invoker.effect,
        )
        approval = await self._doorkeeper.ask(request, context, params)
        if isinstance(approval, InputRequiredResult):
            return approval
        settled = settle(request, approval)
        if settled is not None:
            return settled
        reason = f" {approval.reason}" if approval.reason else ""
        return fail(f"{invoker.name} was not executed: it needs an approval.{reason}")

    async def _set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        """Takes note of whether a session wants to read how far its calls are."""
        connection = context.session._connection
        if params.level in ("debug", LOG_LEVEL):
            self._reading_log.add(connection)
        else:
            self._reading_log.discard(connection)
        return EmptyResult()

    def _reads_log(self, context: Context) -> bool:
        # In the era without sessions each call says so itself, and the package heeds it.
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        return is_modern or context.session._connection in self._reading_log

    def _describe(self) -> tuple[Tool, ...]:
        return tuple(map(describe_tool, self._registry.survey()))

    def _find_schema(self, name: str) -> JsonObject | None:
        try:
            return self._registry.access(name).schema
        except UnknownNameError:
            return None

    async def _remember(self, context: Context, params: NotificationParams) -> None:
        """Takes note of a session, to be told of changes while it lasts."""
        self._connections.add(context.session._connection)  # the package has no other way to it

    def _announce(self) -> None:
        """Hears that the list may have changed; in the event loop."""
        task = asyncio.ensure_future(self._tell_of_change())
        self._announcing.add(task)
        task.add_done_callback(self._announcing.discard)

    async def _tell_of_change(self) -> None:
        await self._registry.refresh()
        tools = self._describe()
        if tools == self._told:
            return
        self._told = tools
        await self._bus.publish(ToolsListChanged())
        for connection in tuple(self._connections):
            await connection.send_tool_list_changed()


async def _conceal(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Keeps to ourselves what has gone wrong within; the log has it."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        _LOGGER.error("%s failed: %s", ctx.method, error, exc_info=error)
        raise MCPError(
            INTERNAL_ERROR, "Something went wrong here; the server's log has it"
        ) from None


def _access_subject(context: ServerRequestContext[Any, Any]) -> str | None:
    """Returns who asks, as the authorizer calls them."""
    user = getattr(context.request, "scope", {}).get("user")
    return None if user is None else str(user.display_name)


def _find_start(tools: Sequence[Tool], cursor: str | None) -> int:
    """Returns where a page begins: behind the tool that the one before ended with."""
    if cursor is None:
        return 0
    for index, tool in enumerate(tools):
        if tool.name == cursor:
            return index + 1
    raise MCPError(INVALID_PARAMS, "There is no page of this cursor; list the tools from the start")


def _mark_edit(outcome: Outcome, arguments: JsonObject, settled: JsonObject) -> Outcome:
    """Tells the client where a policy has changed its arguments."""
    if settled == arguments:
        return outcome
    note = TextualContent("[executed with other arguments than were given, as approved]\n")
    return attrs.evolve(outcome, contents=(note, *outcome.contents))
