"""MCP servers as ensembles, with the answerers of their requests."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar, Unpack

import attrs

from vibe_llms.exceptions import EnsembleError
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables.approvals import Approver
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.libraries import LibraryPrompt, Resource
from vibe_llms.invocables.mcp.client_answers import AnswerLimits, Answers
from vibe_llms.invocables.mcp.connections import (
    ServerConnection,
    Wiring,
    open_connection,
    perform_request,
)
from vibe_llms.invocables.mcp.elicitation import Elicitor
from vibe_llms.invocables.mcp.kit import produce_failure
from vibe_llms.invocables.mcp.oauth.settings import OAuthAuthorizer, OAuthSettings
from vibe_llms.invocables.mcp.passing import ServerLibrary
from vibe_llms.invocables.mcp.relaying import Relay
from vibe_llms.invocables.mcp.resources import ResourceShelf, turn_pages
from vibe_llms.invocables.mcp.search import LazyList
from vibe_llms.invocables.mcp.settings import LAZY_ABOVE, McpServer
from vibe_llms.invocables.mcp.tools import produce_tool
from vibe_llms.invocables.owners import ConnectionOwner

if TYPE_CHECKING:
    import httpx2
    from mcp.client.client import Client
    from mcp_types import Tool

    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.providers.interfaces import ConverserModel

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")

_INSTRUCTIONS_CHARACTERS: Final = 10_000
"""Maximum length of a server's instructions that are passed on."""

_LISTS: Final = (
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
)
"""Methods that announce changes other than those of tools."""


class McpEnsemble:
    """The tools of an MCP server, while it is connected.

    Args:
        server: The settings of the server, including which tools are offered.
        wiring: Capabilities offered to the server; by default none.
        limits: The configured limits, of which ``event_bytes`` applies to each message.
        is_passed_on: True if the server is also offered to programs that speak MCP. They get all
            tools, and its resources unchanged, and are asked the server's questions.

    Attributes:
        shelf: The server's resources and prompts, for the program; a model can read the resources.
        instructions: The server's instructions at the last survey.
        has_sessions: False if the server, once connected, speaks the protocol without sessions.
        may_grow: True, because a server may add tools at any time, or have others after a restart.
    """

    may_grow: Final = True

    def __init__(
        self,
        server: McpServer,
        *,
        wiring: Wiring | None = None,
        limits: Limits | None = None,
        is_passed_on: bool = False,
    ) -> None:
        self.server = server
        self._listener: Callable[[], None] = _ignore
        self._wiring = wiring or Wiring()
        self._relay = Relay(server.name)
        self._is_passed_on = is_passed_on
        if is_passed_on:
            self._wiring = attrs.evolve(
                self._wiring, produce_callbacks=self._relay.produce_callbacks
            )
        wiring = attrs.evolve(self._wiring, notice=self._handle_notice)
        self._owner: ConnectionOwner[ServerConnection] = ConnectionOwner(
            f"mcp server {server.name}",
            lambda: open_connection(server, wiring, limits or Limits(), self._announce),
            lambda reason: produce_failure(server.name, "be used", reason, secrets=server.secrets),
            restarts=server.restarts,
            restarted=self._announce,
        )
        self._lazy = LazyList(server.name, self._announce)
        self.shelf = ResourceShelf(server, self.request)
        self._library = ServerLibrary(
            server=server, request=self.request, relay=self._relay, watch=self.shelf.watch
        )
        self.instructions = ""
        self.has_sessions = True
        self._tools: tuple[Invoker, ...] = ()

    @property
    def name(self) -> str:
        """The server's name."""
        return self.server.name

    @property
    def tools(self) -> tuple[Invoker, ...]:
        """All offered tools, including those that a model must search."""
        return self._tools

    @property
    def is_lazy(self) -> bool:
        """True if a model gets a search tool instead of all tools."""
        lazy = self.server.lazy
        return len(self._tools) > LAZY_ABOVE if lazy is None else lazy

    @property
    def connect_seconds(self) -> float:
        """Timeout for connecting, including the time in which a person must agree, if any."""
        return self.server.connect_seconds + self._wiring.person_seconds

    async def connect(self) -> None:
        """Connect the server; its owner task keeps it connected.

        Raises:
            EnsembleError: The server cannot be connected.
            DependencyError: The package mcp is not installed.
        """
        self.has_sessions = (await self._owner.start()).has_sessions

    async def disconnect(self) -> None:
        """Disconnect the server, and wait until its program has ended."""
        await self._owner.stop()

    async def survey(self) -> Sequence[Invoker]:
        """Return the tools in the server's order, then the invokers for its resources.

        Of a lazy list, only the search and the tools found so far are returned.

        Raises:
            EnsembleError: The server does not answer.
        """
        server_tools, self.instructions = await self.request(
            _survey, "be asked for its tools", seconds=self.server.answer_seconds
        )
        offered = [tool for tool in server_tools if self.server.offers(tool.name)]
        invokers = [produce_tool(tool, self.server, self._owner, self._relay) for tool in offered]
        self._tools = tuple(invoker for invoker in invokers if invoker is not None)
        if self._is_passed_on:
            await self._renew_subscriptions()
            return self._tools
        shown = self._lazy.offer(self._tools) if self.is_lazy else list(self._tools)
        return [*shown, *await self.shelf.survey()]

    async def _renew_subscriptions(self) -> None:
        try:
            await self.shelf.renew()  # the server may have been restarted
        except EnsembleError as error:
            _logger.warning("%s", error)

    async def survey_resources(self) -> Sequence[Resource]:
        """Return the resources and templates in the server's order, for programs that speak MCP."""
        return await self._library.survey_resources()

    async def survey_prompts(self) -> Sequence[LibraryPrompt]:
        """Return the prompts in the server's order, for programs that speak MCP."""
        return await self._library.survey_prompts()

    def listen(self, listener: Callable[[], None]) -> None:
        """Set the callback for changes of the tools, including those by a restart."""
        self._listener = listener

    async def request(
        self, request: Callable[[Client], Awaitable[_T]], action: str, *, seconds: float | None
    ) -> _T:
        """Send a request to the server; wait until it is connected.

        Args:
            request: Called with the official package's client.
            action: The action in words, for an error, as ``be asked for its tools``.
            seconds: Timeout of the answer; ``None`` if the caller limits it.

        Raises:
            EnsembleError: The server is abandoned, has ended, refused the request, or did not
                answer in time.
        """
        connection = await self._owner.acquire()
        result: _T = await perform_request(self.server, connection, request, action, seconds)
        return result

    def _handle_notice(self, message: Any) -> None:
        self.shelf.notice(message)
        if message.method in _LISTS:
            self._announce()
        self._wiring.notice(message)

    def _announce(self) -> None:
        self._listener()


def _ignore() -> None:
    """Ignore an announcement."""


async def _survey(client: Client) -> tuple[list[Tool], str]:
    """Return a server's tools, and its instructions."""
    instructions = (client.instructions or "")[:_INSTRUCTIONS_CHARACTERS]
    # Servers that have only resources or prompts answer a request for tools with an error.
    if client.server_capabilities.tools is None:
        return [], instructions
    tools: dict[str, Tool] = {}
    for tool in await turn_pages(client.list_tools, "tools"):
        # The first tool of a name counts; pages may overlap if tools change in between.
        tools.setdefault(tool.name, tool)
    return list(tools.values()), instructions


class _Answering(TypedDict, total=False):
    approver: Approver | None
    model: ConverserModel | None
    reactors: ConversationReactors | None
    elicitor: Elicitor | None
    roots: Iterable[Path]


class Answerers(_Answering, total=False):
    """Answerers of a server's requests; see :func:`produce_mcp_ensemble`."""

    authorizer: OAuthAuthorizer | None
    is_passed_on: bool


def produce_mcp_ensemble(
    server: McpServer,
    *,
    authorizer: OAuthAuthorizer | None = None,
    grants: Path | None = None,
    limits: Limits | None = None,
    answer_limits: AnswerLimits | None = None,
    is_passed_on: bool = False,
    **answerers: Unpack[_Answering],
) -> McpEnsemble:
    """Create the ensemble of a server, which may ask only questions that have an answerer.

    Args:
        server: The settings of the server, including which tools are offered.
        authorizer: Sends a person to the browser if the server requires OAuth.
        grants: The directory of OAuth tokens; ``None`` to keep them in memory.
        limits: The configured limits.
        answer_limits: Limits of the server's requests.
        is_passed_on: True to ask the calling program instead of the answerers; see
            :class:`McpEnsemble`.
        answerers: ``approver`` is asked before ``model`` answers the server's questions;
            ``reactors`` observe its answers; ``elicitor`` asks a person the server's questions;
            ``roots`` are directories disclosed to the server.
    """
    answers = Answers(server=server.name, limits=answer_limits or AnswerLimits(), **answerers)
    wiring = Wiring(produce_callbacks=answers.produce_callbacks)
    if _may_use_oauth(server, authorizer, grants):
        wiring = _add_authorization(wiring, server, authorizer, grants)
    return McpEnsemble(server, wiring=wiring, limits=limits, is_passed_on=is_passed_on)


def _may_use_oauth(
    server: McpServer, authorizer: OAuthAuthorizer | None, grants: Path | None
) -> bool:
    """Return whether OAuth may be used: if it is configured, or possible and there is no token."""
    if not server.url:
        return False
    has_token = any(name.lower() == "authorization" for name in server.headers)
    is_possible = authorizer is not None or grants is not None
    # A token in the configured headers takes precedence, because OAuth would replace it.
    return server.oauth is not None or (is_possible and not has_token)


def _add_authorization(
    wiring: Wiring, server: McpServer, authorizer: OAuthAuthorizer | None, grants: Path | None
) -> Wiring:
    settings = server.oauth or OAuthSettings()

    def produce() -> httpx2.Auth:
        from vibe_llms.invocables.mcp.oauth.flow import Authorization  # needs the package mcp

        return Authorization(
            server.name,
            server.url,
            settings,
            directory=grants,
            authorizer=authorizer,
            timeout=wiring.timeout,
        )

    return attrs.evolve(
        wiring,
        produce_auth=functools.cache(
            produce
        ),  # one for all connections, because it counts how often the user is asked
        person_seconds=settings.wait_seconds if authorizer is not None else 0.0,
    )
