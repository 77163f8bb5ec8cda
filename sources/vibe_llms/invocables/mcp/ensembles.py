"""An MCP server as an ensemble."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import attrs

from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.caretakers import Caretaker
from vibe_llms.invocables.mcp.connections import Wiring, perform_request
from vibe_llms.invocables.mcp.resources import Shelf
from vibe_llms.invocables.mcp.search import LazyList
from vibe_llms.invocables.mcp.settings import LAZY_ABOVE, McpServer
from vibe_llms.invocables.mcp.tools import produce_tool
from vibe_llms.limits import Limits

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import Tool

_logger = logging.getLogger(__name__)
_T = TypeVar("_T")

TOOLS_LIMIT: Final = 10_000
"""How many tools one server may have; more are left out, which is logged."""

PAGES_LIMIT: Final = 1_000
"""How many pages the list of a server's tools may have."""


class Source(Protocol):
    """Something that a server has besides tools, and that can be invoked, too."""

    async def survey(self) -> Sequence[Invoker]:
        """Returns the invokers."""


class McpEnsemble:
    """The tools of an MCP server, from its being connected to its being disconnected.

    Args:
        server: How it is reached, and what of it is offered.
        wiring: What the server may ask of us; by default nothing.
        limits: Of these, ``event_bytes`` bounds one message of the server.

    Attributes:
        shelf: The server's resources and prompts, for the host; a model is offered what of them
            it can read.
        may_grow: A server may add tools at any time, or have others once it was started again.
    """

    may_grow: Final = True

    def __init__(
        self, server: McpServer, *, wiring: Wiring | None = None, limits: Limits | None = None
    ) -> None:
        self.server = server
        self._listener: Callable[[], None] = _ignore
        self._wiring = wiring or Wiring()
        self._caretaker = Caretaker(
            server,
            attrs.evolve(self._wiring, notice=self._notice),
            limits or Limits(),
            self._announce,
        )
        self._lazy = LazyList(server.name, self._announce)
        self.shelf = Shelf(self)
        self._sources: list[Source] = [self.shelf]
        self._tools: tuple[Invoker, ...] = ()

    @property
    def name(self) -> str:
        """The server's name."""
        return self.server.name

    @property
    def tools(self) -> tuple[Invoker, ...]:
        """All tools that are offered, those included that a model has yet to find."""
        return self._tools

    @property
    def is_lazy(self) -> bool:
        """Whether a model is told of a search instead of all tools."""
        lazy = self.server.lazy
        return len(self._tools) > LAZY_ABOVE if lazy is None else lazy

    @property
    def connect_seconds(self) -> float:
        """How long connecting may take at most: also a person's time, where one has to agree."""
        return self.server.connect_seconds + self._wiring.person_seconds

    def add(self, source: Source) -> None:
        """Adds something whose invokers follow the tools."""
        self._sources.append(source)

    async def connect(self) -> None:
        """Connects the server, whose caretaker then keeps it connected.

        Raises:
            EnsembleError: It cannot be connected.
            DependencyError: The package mcp is not installed.
        """
        await self._caretaker.start()

    async def disconnect(self) -> None:
        """Disconnects the server; a program that was started has ended then."""
        await self._caretaker.stop()

    async def survey(self) -> Sequence[Invoker]:
        """Returns the tools in the server's order, or those that were found; then the rest.

        Raises:
            EnsembleError: The server cannot be asked.
        """
        found = await self.request(
            _list_tools, "be asked for its tools", seconds=self.server.answer_seconds
        )
        offered = [tool for tool in found if self.server.offers(tool.name)]
        made = [produce_tool(tool, self.server, self._caretaker) for tool in offered]
        self._tools = tuple(tool for tool in made if tool is not None)
        shown = self._lazy.offer(self._tools) if self.is_lazy else list(self._tools)
        for source in self._sources:
            shown.extend(await source.survey())
        return shown

    def listen(self, listener: Callable[[], None]) -> None:
        """Takes whom to call when the tools may have changed, also because of a restart."""
        self._listener = listener

    async def request(
        self, request: Callable[[Client], Awaitable[_T]], what: str, *, seconds: float | None
    ) -> _T:
        """Lets something be asked of the server, once it is connected.

        Args:
            request: Is given the official package's client.
            what: What is to be done, for an error, as ``be asked for its tools``.
            seconds: How long the answer may take; ``None`` where the caller bounds it.

        Raises:
            EnsembleError: It was given up, ended, refused, or did not answer in time.
        """
        connection = await self._caretaker.acquire()
        result: _T = await perform_request(self.server, connection, request, what, seconds)
        return result

    def _notice(self, message: Any) -> None:
        self.shelf.notice(message)
        if message.method == "notifications/resources/list_changed":
            self._announce()
        self._wiring.notice(message)

    def _announce(self) -> None:
        self._listener()


def _ignore() -> None:
    """Takes an announcement that nobody waits for."""


async def _list_tools(client: Client) -> list[Tool]:
    tools: dict[str, Tool] = {}
    if client.server_capabilities.tools is None:
        return []
    cursor: str | None = None
    for _ in range(PAGES_LIMIT):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        cursor = page.next_cursor
        if not cursor or len(tools) > TOOLS_LIMIT:
            break
    if cursor:
        _logger.warning("A server has more than %d tools; the rest is left out.", len(tools))
    return list(tools.values())[:TOOLS_LIMIT]
