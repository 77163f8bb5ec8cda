"""Connections to MCP servers: the client, its callbacks, and requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from vibe_llms.exceptions import Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.version import __version__
from vibe_llms.invocables.mcp.http import open_http
from vibe_llms.invocables.mcp.kit import is_closure, load_kit, produce_failure
from vibe_llms.invocables.mcp.pausable_timeout import PausableTimeout
from vibe_llms.invocables.mcp.relaying import forget_call
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.mcp.sifting import FilteredStream
from vibe_llms.invocables.mcp.stdio import open_stdio
from vibe_llms.invocables.owners import Disconnection

if TYPE_CHECKING:
    import httpx2
    from mcp.client.client import Client

_logger = logging.getLogger(__name__)

_LISTEN_SECONDS: Final = (1.0, 2.0, 5.0, 15.0, 60.0)
"""Delays before an interrupted stream of announcements is reopened."""

_EXPLAIN_SECONDS: Final = 2.0
"""Time to wait for the reason why a connection has closed."""

Notice: TypeAlias = Callable[[Any], None]


def _ignore(_: Any) -> None:
    """Ignore an announcement."""


@frozen(kw_only=True)
class Wiring:
    """Capabilities offered to a server, and authentication.

    Attributes:
        produce_callbacks: Returns, for each new connection, arguments of the official package's
            client: ``sampling_callback``, ``elicitation_callback``, ``list_roots_callback`` and
            related ones. Each callback tells the server that it may send such requests.
        produce_auth: Returns, for each new connection over HTTP, the authentication of requests.
        timeout: The time limit for connecting, which is paused while a person is asked.
        person_seconds: Time limit for a person while a server is being connected.
        notice: Called with every announcement of the server, as the official package's object.
    """

    produce_callbacks: Callable[[], Mapping[str, Any]] = dict
    produce_auth: Callable[[], httpx2.Auth | None] = lambda: None
    timeout: PausableTimeout = attrs.field(factory=PausableTimeout)
    person_seconds: float = 0.0
    notice: Notice = _ignore


@frozen(kw_only=True, eq=False)
class ServerConnection:
    """A connected server.

    Attributes:
        client: The client of the official package.
        ending: Set when the connection ends, with the reason.
    """

    client: Client
    ending: Disconnection

    @property
    def has_sessions(self) -> bool:
        """True if the server uses a version of the protocol that has sessions."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        return self.client.protocol_version not in MODERN_PROTOCOL_VERSIONS


@asynccontextmanager
async def open_connection(
    server: McpServer, wiring: Wiring, limits: Limits, changed: Callable[[], None]
) -> AsyncIterator[ServerConnection]:
    """Connect a server; one task must enter and leave the context.

    Args:
        server: The settings of the server.
        wiring: Capabilities offered to the server.
        limits: The configured limits.
        changed: Called when the server's tools may have changed.

    Raises:
        EnsembleError: The server cannot be connected.
        DependencyError: The official package is not installed.
    """
    forget_call()  # this connection does not belong to the call that opens it
    # In a thread first, because the imports below take a second, which would block the loop.
    await load_kit()
    import anyio

    ending = Disconnection()
    async with AsyncExitStack() as stack:
        try:
            async with wiring.timeout.limit(server.connect_seconds):
                client = _produce_client(server, wiring, limits, ending, changed)
                await stack.enter_async_context(client)
            _ensure_protocol(server, client)
            _disable_result_checks(client)
        except Exception as error:
            raise _explain_refusal(server, error, ending) from error
        listening = await stack.enter_async_context(anyio.create_task_group())
        # Cancels the listener, which never ends, before the group waits for its tasks.
        stack.callback(listening.cancel_scope.cancel)
        connection = ServerConnection(client=client, ending=ending)
        if not connection.has_sessions:
            listening.start_soon(_listen, client, changed)
        try:
            yield connection
        finally:
            ending.report("")


def _produce_client(
    server: McpServer,
    wiring: Wiring,
    limits: Limits,
    ending: Disconnection,
    changed: Callable[[], None],
) -> Client:
    from mcp.client.client import Client
    from mcp_types import Implementation, ToolListChangedNotification

    async def handle_message(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed()
        elif not isinstance(message, Exception):
            wiring.notice(message)

    async def log(parameters: Any) -> None:
        _logger.debug("%s logs (%s): %s", server.name, parameters.level, parameters.data)

    streams: Any = (
        open_http(server, limits, ending, wiring.produce_auth())
        if server.url
        else open_stdio(server, limits, ending)
    )
    return Client(
        _open_filtered(streams, server.name),
        # With an explicit version, the package would not ask the server for its version. With
        # "auto" it does, and _ensure_protocol checks the answer.
        mode="legacy" if server.protocol == "2025-11-25" else "auto",
        # The package would cache answers for as long as the server allows, but callers need current
        # data.
        cache=None,
        client_info=Implementation(name="vibe-llms", version=__version__),
        **{
            "message_handler": handle_message,
            "logging_callback": log,
            **wiring.produce_callbacks(),
        },
    )


@asynccontextmanager
async def _open_filtered(streams: Any, server: str) -> AsyncIterator[tuple[Any, Any]]:
    async with streams as (received, sent):
        yield FilteredStream(received, server), sent


def _disable_result_checks(client: Client) -> None:
    """Stop the official package from validating results.

    It would apply a server's schemas in the event loop and without limits.
    """

    async def accept(name: str, result: Any) -> None:
        """Accept every result, because the invoker of the tool validates it, within limits."""

    client.session.validate_tool_result = accept  # type: ignore[method-assign]


def _ensure_protocol(server: McpServer, client: Client) -> None:
    if server.protocol not in ("auto", client.protocol_version):
        detail = f"it uses protocol {client.protocol_version}, not {server.protocol}"
        raise ConnectionError(detail)


def _explain_refusal(server: McpServer, error: Exception, ending: Disconnection) -> Exception:
    """Explain why a server could not be connected.

    The reason why the connection ended counts only if the error has no reason: an earlier answer of
    the server, such as an unsupported version, takes precedence.
    """
    reason: Exception | str = error
    if isinstance(error, TimeoutError):
        reason = f"it was not ready within {server.connect_seconds:g} seconds"
    elif ending.reason and is_closure(error):
        reason = f"it {ending.reason}"
    return produce_failure(server.name, "be connected", reason, secrets=server.secrets)


async def _listen(client: Client, changed: Callable[[], None]) -> None:
    """Keep the stream open over which a server without sessions announces changes."""
    from mcp.client.subscriptions import SubscriptionLost
    from mcp.shared.exceptions import MCPError

    kinds = _survey_announcements(client)
    if not kinds:
        return
    failures = 0
    # An end without an error counts, too, or a server that disconnects immediately would be
    # asked endlessly.
    while failures < len(_LISTEN_SECONDS):
        try:
            async with client.listen(**kinds) as subscription:
                if failures:
                    changed()  # announcements during the pause were missed
                failures = 0
                async for _ in subscription:
                    pass  # handle_message receives these announcements, too
        except (SubscriptionLost, MCPError) as error:
            _logger.debug("The server's announcements were interrupted: %s", error)
        await asyncio.sleep(_LISTEN_SECONDS[failures])
        failures += 1


def _survey_announcements(client: Client) -> dict[str, Any]:
    """Return the kinds of announcements that the server sends."""
    capabilities = client.server_capabilities
    announced = {
        "tools_list_changed": capabilities.tools and capabilities.tools.list_changed,
        "prompts_list_changed": capabilities.prompts and capabilities.prompts.list_changed,
        "resources_list_changed": capabilities.resources and capabilities.resources.list_changed,
    }
    return {name: True for name, is_announced in announced.items() if is_announced}


async def perform_request(
    server: McpServer,
    connection: ServerConnection,
    request: Callable[[Client], Awaitable[Any]],
    action: str,
    seconds: float | None,
) -> Any:
    """Send a request to a connected server, and map its errors.

    Args:
        action: The action in words, as ``be asked for its tools``.
        seconds: Timeout; ``None`` if the caller limits it.

    Raises:
        EnsembleError: The server ended, refused the request, or did not answer in time.
    """
    try:
        # The owner of a failed connection waits for outstanding answers for a moment.
        with connection.ending.hold():
            async with asyncio.timeout(seconds):
                return await request(connection.client)
    except TimeoutError as error:
        reason = f"it did not answer within {seconds:g} seconds" if seconds else "it took too long"
        raise produce_failure(server.name, action, reason, stage=Stage.EXECUTE) from error
    except Exception as error:
        reason = ""
        if is_closure(error):
            # The end of a connection wakes the requests first; its reason follows a moment later.
            await connection.ending.wait(_EXPLAIN_SECONDS)
            reason = f"it {connection.ending.reason}" if connection.ending.reason else ""
        raise produce_failure(
            server.name, action, reason or error, stage=Stage.EXECUTE, secrets=server.secrets
        ) from error
