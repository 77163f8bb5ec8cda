"""Invokers for the tools of a server."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import write_fault_lines
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.mcp.connections import ServerConnection, perform_request
from vibe_llms.invocables.mcp.elicitation import visit_addresses
from vibe_llms.invocables.mcp.http import NOT_STARTED
from vibe_llms.invocables.mcp.relaying import Relay, ask_until_complete, compose_meta
from vibe_llms.invocables.mcp.results import normalize_result
from vibe_llms.invocables.mcp.settings import McpServer
from vibe_llms.invocables.outcomes import Outcome, fail
from vibe_llms.invocables.owners import ConnectionOwner
from vibe_llms.invocables.validation import Validator, produce_validator

if TYPE_CHECKING:
    from mcp.client.client import Client
    from mcp_types import CallToolResult, Tool, ToolAnnotations

_logger = logging.getLogger(__name__)

_PROGRESS_CHARACTERS: Final = 200

KEY_META: Final = "vibe-llms/idempotencyKey"
"""Name in a call's ``_meta`` for the idempotency key, which all attempts share."""


def produce_tool(
    tool: Tool,
    server: McpServer,
    owner: ConnectionOwner[ServerConnection],
    relay: Relay | None = None,
) -> Invoker | None:
    """Create the invoker of a tool; log a warning and return ``None`` if the tool is invalid."""
    annotations = tool.annotations if server.trust_annotations else None
    effect = _determine_effect(annotations)
    try:
        return Invoker(
            name=tool.name,
            description=_describe(tool, server),
            schema=tool.input_schema,
            function=ToolFunction(
                tool.name,
                effect,
                server,
                owner,
                relay or Relay(server.name),
                _produce_output_validator(tool, server),
            ),
            effect=effect,
            needs_approval=_needs_approval(tool.name, annotations, server),
            time_limit_seconds=server.call_seconds,
            title=tool.title or "",
            source=tool,
        )
    except ConverseError as error:
        _logger.warning("The tool %r of %s is left out: %s", tool.name, server.name, error)
        return None


def _produce_output_validator(tool: Tool, server: McpServer) -> Validator | None:
    name = f"the results of {tool.name!r} of {server.name}"
    return None if tool.output_schema is None else produce_validator(tool.output_schema, name)


def _describe(tool: Tool, server: McpServer) -> str:
    annotated_title = tool.annotations.title if tool.annotations else None
    title = tool.title or annotated_title or ""
    description = (tool.description or "").strip()
    return description or title.strip() or f"The tool {tool.name!r} of {server.name}."


def _determine_effect(annotations: ToolAnnotations | None) -> Effect:
    if annotations is not None and annotations.read_only_hint:
        return Effect.PURE
    if annotations is not None and annotations.idempotent_hint:
        return Effect.IDEMPOTENT
    return Effect.ONCE


def _needs_approval(name: str, annotations: ToolAnnotations | None, server: McpServer) -> bool:
    if server.allows(name) or (annotations is not None and annotations.read_only_hint):
        return False
    return server.needs_approval


@frozen(eq=False)
class ToolFunction:
    """Function that calls one tool; a cancellation tells the server to stop.

    Attributes:
        name: The name of the tool.
        effect: Side effects of the tool.
        server: The settings of its server.
        owner: The owner of the connection.
        relay: Tracks the current calls.
        output: Validator of structured results, if the tool has a schema for them.
    """

    name: str
    effect: Effect
    server: McpServer
    owner: ConnectionOwner[ServerConnection]
    relay: Relay
    output: Validator | None = None

    async def __call__(self, arguments: JsonObject, context: InvocationContext) -> Outcome:
        """Call the tool with the arguments."""
        with self.relay.follow(context):
            return await self._execute(arguments, context)

    async def _execute(self, arguments: JsonObject, context: InvocationContext) -> Outcome:
        try:
            connection = await self.owner.acquire()
        except ConverseError as error:
            # Nothing was sent, so the call cannot have taken effect.
            return fail(f"{self.name} was not called. {error}")
        try:
            return await self._check_result(await self._call(connection, arguments, context))
        except ConverseError as error:
            refusal = error
        # Only such a call is repeated: with this answer, the server has not started it.
        if await visit_addresses(connection.client, refusal.__cause__):
            try:
                return await self._check_result(await self._call(connection, arguments, context))
            except ConverseError as error:
                refusal = error
        return fail(self._explain(refusal, connection))

    async def _call(
        self, connection: ServerConnection, arguments: JsonObject, context: InvocationContext
    ) -> CallToolResult:
        async def send(client: Client, answers: Any = None, state: str | None = None) -> Any:
            meta: Any = compose_meta(client, context) or {}
            if context.idempotency_key:
                meta[KEY_META] = context.idempotency_key
            # The calling program answers questions, or the client's callbacks if there is none.
            target: Any = client if context.host is None else client.session
            options = {} if context.host is None else {"allow_input_required": True}
            return await target.call_tool(
                self.name,
                dict(arguments),
                progress_callback=_produce_listener(context),
                input_responses=answers,
                request_state=state,
                meta=meta or None,
                **options,
            )

        async def ask(client: Client) -> Any:
            await self.relay.set_log_level(client, context.host)
            return await ask_until_complete(partial(send, client), context, self.server.name)

        with self.relay.follow(context):
            action = f"perform {self.name!r}"
            result: CallToolResult = await perform_request(
                self.server, connection, ask, action, None
            )
        return result

    async def _check_result(self, result: CallToolResult) -> Outcome:
        """Convert a result into an outcome, and check it against the server's schema."""
        problem = "" if result.is_error else await self._find_problem(result)
        if not problem:
            return normalize_result(result)
        text = f"{self.name} of {self.server.name} was called, but {problem}"
        return fail(text if self.effect is Effect.PURE else f"{text} It may have taken effect.")

    async def _find_problem(self, result: CallToolResult) -> str:
        if self.output is None:
            return ""
        if (
            # Null is not missing, because the schema may permit it.
            result.structured_content is None
            and "structured_content" not in result.model_fields_set
        ):
            return "returned no structured content, which its schema requires."
        try:
            faults = await self.output.examine(result.structured_content)
        except ConverseError as error:
            return f"its result cannot be checked. {error}"
        if not faults:
            return ""
        return f"its result does not match its schema:{write_fault_lines(faults)}\n"

    def _explain(self, error: ConverseError, connection: ServerConnection) -> str:
        text = str(error)
        if connection.ending.is_set:
            action = "connected" if self.server.url else "started"
            text += f" It is being {action} again."
        if _was_not_started(error):
            return f"{text} The call was not started."
        if self.effect is not Effect.PURE:
            text += " The call may have taken effect."
        return text


def _was_not_started(error: ConverseError) -> bool:
    """Return whether the server cannot have started a call."""
    from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED

    cause = error.__cause__
    # Created by the HTTP client of this package, never by a server.
    if getattr(cause, "data", None) == NOT_STARTED:
        return True
    codes = (INVALID_PARAMS, METHOD_NOT_FOUND, URL_ELICITATION_REQUIRED)
    return getattr(cause, "code", None) in codes


def _produce_listener(context: InvocationContext) -> Callable[..., Any]:
    async def report_progress(progress: float, total: float | None, message: str | None) -> None:
        context.progress((message or "")[:_PROGRESS_CHARACTERS], progress, total)

    return report_progress
