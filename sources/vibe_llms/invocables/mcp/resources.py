"""Resources and prompts of a server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs

from vibe_llms.exceptions import EnsembleError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.mcp.resource_watchers import Watchers
from vibe_llms.invocables.mcp.results import (
    normalize_block,
    normalize_blocks,
    normalize_resource,
)
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister, UserCanister
from vibe_llms.messages.contents import AnyContent

if TYPE_CHECKING:
    from mcp.client.client import Client

_logger = logging.getLogger(__name__)

PAGES_LIMIT: Final = 1_000
"""Maximum number of pages in one list of a server."""

ENTRIES_LIMIT: Final = 10_000
"""Maximum number of a server's tools, resources, templates or prompts; the rest is left out and
logged."""

_SHOWN_LIMIT: Final = 200
"""Maximum number of entries shown to a model together."""


@frozen(kw_only=True)
class ResourceEntry:
    """A readable resource.

    Attributes:
        uri: Address of the resource. The address of a template has placeholders, such as
            ``{path}``.
        name: Name of the resource.
        description: Description of the resource.
        mime_type: Media type, if known.
        size_bytes: Size, if known.
        is_template: True if the entry is a template of many resources.
    """

    uri: str
    name: str
    description: str = ""
    mime_type: str = ""
    size_bytes: int | None = None
    is_template: bool = False

    def __str__(self) -> str:
        size = "" if self.size_bytes is None else f"{self.size_bytes} bytes"
        facts = ", ".join(filter(None, (self.name, self.mime_type, size)))
        text = f"{self.uri} ({facts})"
        return f"{text}: {self.description}" if self.description else text


@frozen(kw_only=True)
class PromptArgument:
    """One argument of a prompt."""

    name: str
    description: str = ""
    is_required: bool = False


@frozen(kw_only=True)
class PromptEntry:
    """A prompt of a server."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ResourceShelf(Watchers):
    """The resources and prompts of one server.

    Programs call its methods. A model gets two invokers, if there are resources.
    """

    async def list_resources(self) -> tuple[ResourceEntry, ...]:
        """Return the listed resources, in the server's order, then its templates.

        Raises:
            EnsembleError: The server does not answer.
        """

        async def survey(client: Client) -> list[ResourceEntry]:
            # A server without this capability answers with an error at best.
            if client.server_capabilities.resources is None:
                return []
            resources = await turn_pages(client.list_resources, "resources")
            templates = await turn_pages(client.list_resource_templates, "resource_templates")
            return [
                *(_read_entry(each, each.uri) for each in resources),
                *(
                    attrs.evolve(_read_entry(each, each.uri_template), is_template=True)
                    for each in templates
                ),
            ]

        return tuple(await self._ask(survey, "be asked for its resources"))

    async def read_resource(self, uri: str) -> tuple[AnyContent, ...]:
        """Read one resource.

        Returns:
            Contents of the resource, each after a line with its address.

        Raises:
            EnsembleError: The resource does not exist, or the server does not answer.
        """
        result = await self._ask(lambda client: client.read_resource(uri), f"read {uri}")
        return tuple(normalize_blocks(result.contents, normalize_resource))

    async def list_prompts(self) -> tuple[PromptEntry, ...]:
        """Return the prompts of the server, in its order.

        Raises:
            EnsembleError: The server does not answer.
        """

        async def survey(client: Client) -> list[Any]:
            if client.server_capabilities.prompts is None:
                return []
            return await turn_pages(client.list_prompts, "prompts")

        return tuple(map(_read_prompt, await self._ask(survey, "be asked for its prompts")))

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None
    ) -> tuple[AnyCanister, ...]:
        """Fill in a prompt.

        Returns:
            The beginning of a conversation, one canister per message.

        Raises:
            EnsembleError: The prompt is unknown, an argument is missing, or the server does not
                answer.
        """
        result = await self._ask(
            lambda client: client.get_prompt(name, dict(arguments or {})),
            f"give the prompt {name!r}",
        )
        return tuple(
            (UserCanister if message.role == "user" else AssistantCanister)(
                list(normalize_block(message.content))
            )
            for message in result.messages
        )

    async def survey(self) -> Sequence[Invoker]:
        """Return the invokers for a model: none if the server has no resources.

        Many servers announce resources but have none, or cannot list them. That must not affect
        their tools.
        """
        try:
            # A survey may follow a restart of the server, after which it has no subscriptions.
            await self.renew()
            if not await self.list_resources():
                return ()
        except EnsembleError as error:
            _logger.warning("%s", error)
            return ()
        return (self._produce_lister(), self._produce_reader())

    def _produce_lister(self) -> Invoker:
        return Invoker(
            name="list_resources",
            description=f"Lists what can be read from {self._server.name}: the addresses "
            "with descriptions. An address with placeholders in braces stands "
            "for many: fill them in to read one.",
            schema={
                "type": "object",
                "properties": {
                    "search": {"type": "string", "description": "Only entries that contain this."}
                },
                "additionalProperties": False,
            },
            function=self._show_resources,
            effect=Effect.PURE,
            time_limit_seconds=self._server.call_seconds,
        )

    def _produce_reader(self) -> Invoker:
        server = self._server
        return Invoker(
            name="read_resource",
            description=f"Reads an entry of {server.name}, by an address from "
            "list_resources or one made from a template.",
            schema={
                "type": "object",
                "properties": {"uri": {"type": "string", "description": "The address."}},
                "required": ["uri"],
                "additionalProperties": False,
            },
            function=self._show_resource,
            effect=Effect.PURE,
            needs_approval=server.needs_approval and not server.allows("read_resource"),
            time_limit_seconds=server.call_seconds,
        )

    async def _show_resources(self, arguments: JsonObject, context: InvocationContext) -> str:
        search = str(arguments.get("search", "")).lower()
        lines = [str(entry) for entry in await self.list_resources()]
        lines = [line for line in lines if search in line.lower()]
        surplus = len(lines) - _SHOWN_LIMIT
        if surplus > 0:
            lines = [*lines[:_SHOWN_LIMIT], f"[and {surplus} more: search for something]"]
        return "\n".join(lines) or "No resources."

    async def _show_resource(self, arguments: JsonObject, context: InvocationContext) -> Outcome:
        return Outcome(contents=await self.read_resource(str(arguments["uri"])))


async def turn_pages(ask: Callable[..., Awaitable[Any]], key: str) -> list[Any]:
    """Return all entries of a paginated list, within limits."""
    entries: list[Any] = []
    cursor: str | None = None
    # The limit stops at a server whose cursors repeat or never end.
    for _ in range(PAGES_LIMIT):
        page = await ask(cursor=cursor)
        entries.extend(getattr(page, key))
        cursor = page.next_cursor
        if not cursor or len(entries) > ENTRIES_LIMIT:
            break
    if cursor or len(entries) > ENTRIES_LIMIT:
        _logger.warning("A server has more than %d %s; the rest is left out.", len(entries), key)
    return entries[:ENTRIES_LIMIT]


def _read_entry(entry: Any, uri: str) -> ResourceEntry:
    return ResourceEntry(
        uri=uri,
        name=entry.title or entry.name,
        description=" ".join((entry.description or "").split()),
        mime_type=entry.mime_type or "",
        size_bytes=getattr(entry, "size", None),  # a template has none
    )


def _read_prompt(entry: Any) -> PromptEntry:
    return PromptEntry(
        name=entry.name,
        title=entry.title or "",
        description=entry.description or "",
        arguments=tuple(
            PromptArgument(
                name=each.name,
                description=each.description or "",
                is_required=bool(each.required),
            )
            for each in entry.arguments or ()
        ),
    )
