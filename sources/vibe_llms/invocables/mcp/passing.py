"""Passthrough of a server's resources and prompts to programs that speak MCP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.libraries import LibraryPrompt, Resource, Watch, match_address
from vibe_llms.invocables.mcp.relaying import Relay, ask_until_complete, compose_meta
from vibe_llms.invocables.mcp.resources import turn_pages
from vibe_llms.invocables.mcp.results import (
    normalize_block,
    normalize_blocks,
    normalize_resource,
)
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.outcomes import Outcome

if TYPE_CHECKING:
    from mcp.client.client import Client

Request = Callable[..., Awaitable[Any]]
"""Sends a request to the server, as :meth:`.ensembles.McpEnsemble.request` does."""

_ANY_OBJECT: Final[JsonObject] = {"type": "object"}
_UNLISTED: Final = "{+uri}"
"""Template that matches every address."""
_NO_LIMIT: Final = 2**40
"""A limit that is never reached; ``event_bytes`` already limits each message of the server."""


@frozen(kw_only=True)
class ServerLibrary:
    """The resources and prompts of a server, passed on unchanged.

    Attributes:
        server: The settings of the server.
        request: Sends a request to the server.
        relay: Tracks the current calls.
        watch: Reports changes of a resource.
    """

    server: McpServer
    request: Request
    relay: Relay
    watch: Watch

    async def survey_resources(self) -> list[Resource]:
        """Return resources and templates, in the server's order, then one for unlisted addresses.

        Raises:
            EnsembleError: The server does not answer.
        """

        async def ask(client: Client) -> tuple[list[Any], list[Any]] | None:
            # A server without this capability answers with an error at best.
            if client.server_capabilities.resources is None:
                return None
            resources = await turn_pages(client.list_resources, "resources")
            return resources, await turn_pages(client.list_resource_templates, "resource_templates")

        found = await self._survey(ask, "be asked for its resources")
        if found is None:
            return []
        resources = [self._produce_resource(each.uri, each) for each in found[0]]
        templates = [self._produce_resource(each.uri_template, each) for each in found[1]]
        # Tools may link to resources that are not listed.
        return [*resources, *templates, self._produce_resource(_UNLISTED, None)]

    async def survey_prompts(self) -> list[LibraryPrompt]:
        """Return the prompts, in the server's order.

        Raises:
            EnsembleError: The server does not answer.
        """

        async def ask(client: Client) -> list[Any]:
            if client.server_capabilities.prompts is None:
                return []
            return await turn_pages(client.list_prompts, "prompts")

        found = await self._survey(ask, "be asked for its prompts")
        return [
            LibraryPrompt(
                writer=self._produce_invoker(each.name, each.description, partial(self._get, each)),
                completer=self._produce_completer("ref/prompt", "name", each.name),
                source=each,
            )
            for each in found
        ]

    async def _survey(self, ask: Callable[[Client], Awaitable[Any]], action: str) -> Any:
        return await self.request(ask, action, seconds=self.server.answer_seconds)

    def _produce_resource(self, uri: str, source: Any) -> Resource:
        name = self.server.name if source is None else source.name

        def match(address: str) -> JsonObject | None:
            return None if match_address(uri, address) is None else {"uri": address}

        is_template = "{" in uri
        complete = self._produce_completer("ref/resource", "uri", uri) if is_template else None
        return Resource(
            uri=uri,
            reader=self._produce_invoker(name, getattr(source, "description", ""), self._read),
            match=match,
            completer=None if source is None else complete,
            watch=self.watch,
            is_listed=source is not None,
            source=source,
        )

    def _produce_invoker(self, name: str, description: str | None, function: Any) -> Invoker:
        return Invoker(
            name=name or self.server.name,
            description=(description or "").strip() or f"Of {self.server.name}.",
            schema=_ANY_OBJECT,
            function=function,
            effect=Effect.PURE,
            time_limit_seconds=self.server.call_seconds,
            output_limit_characters=_NO_LIMIT,
            output_limit_bytes=_NO_LIMIT,
        )

    def _produce_completer(self, kind: str, key: str, target: str) -> Invoker:
        reference = {"type": kind, key: target}
        return self._produce_invoker(target, "", partial(self._complete, reference))

    async def _read(self, arguments: JsonObject, context: InvocationContext) -> Outcome:
        uri = str(arguments["uri"])

        async def ask(client: Client, answers: Any, state: str | None) -> Any:
            return await client.session.read_resource(
                uri,
                input_responses=answers,
                request_state=state,
                meta=compose_meta(client, context),  # type: ignore[arg-type]
                allow_input_required=True,
            )

        def convert(result: Any) -> Outcome:
            contents = normalize_blocks(result.contents, normalize_resource)
            return Outcome(contents=contents, source=result)

        return await self._ask(ask, convert, context, f"read {uri}")

    async def _get(self, prompt: Any, arguments: JsonObject, context: InvocationContext) -> Outcome:
        async def ask(client: Client, answers: Any, state: str | None) -> Any:
            return await client.session.get_prompt(
                prompt.name,
                {name: str(value) for name, value in arguments.items()},
                input_responses=answers,
                request_state=state,
                meta=compose_meta(client, context),  # type: ignore[arg-type]
                allow_input_required=True,
            )

        def convert(result: Any) -> Outcome:
            blocks = [message.content for message in result.messages]
            return Outcome(contents=normalize_blocks(blocks, normalize_block), source=result)

        return await self._ask(ask, convert, context, f"give the prompt {prompt.name!r}")

    async def _complete(
        self, reference: JsonObject, arguments: JsonObject, context: InvocationContext
    ) -> Outcome:
        import mcp_types as types

        is_prompt = reference["type"] == "ref/prompt"
        kind: Any = types.PromptReference if is_prompt else types.ResourceTemplateReference
        values: Any = arguments

        async def ask(client: Client, answers: Any, state: str | None) -> Any:
            if client.server_capabilities.completions is None:
                return types.CompleteResult(completion=types.Completion(values=[]))
            return await client.complete(
                kind.model_validate(reference),
                {"name": values["argument"], "value": values["value"]},
                dict(values["others"]) or None,
            )

        return await self._ask(
            ask, lambda result: Outcome(source=result), context, "make suggestions"
        )

    async def _ask(
        self,
        ask: Callable[[Client, Any, str | None], Awaitable[Any]],
        convert: Callable[[Any], Outcome],
        context: InvocationContext,
        action: str,
    ) -> Outcome:
        """Send a request; if the server refuses it, the outcome contains the server's error."""

        async def send(answers: Any, state: str | None) -> Any:
            return await self.request(
                lambda client: ask(client, answers, state), action, seconds=None
            )

        try:
            with self.relay.follow(context):
                return convert(await ask_until_complete(send, context, self.server.name))
        except ConverseError as error:
            refusal = getattr(error.__cause__, "error", None)
            return Outcome(contents=str(error), is_error=True, source=refusal)
