"""A channel as a tool: one model calls another model for a purpose."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, Self, Unpack

from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.foundation.reprs import represent
from vibe_llms.instruments.channels.asynchronous import AsyncChannel, ChannelSettings
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.models import AnyModel
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import MARK, Effect, Invoker, produce_invoker
from vibe_llms.invocables.outcomes import Outcome, fail, produce_outcome
from vibe_llms.messages.canisters import Usage

DEPTH_LIMIT: Final = 3
"""Default for the maximum depth of channels that call channels."""

_depth: ContextVar[int] = ContextVar("vibe_llms_channel_depth", default=0)


class ToolChannel(Closing):
    """A channel as a tool of another engine. Each call is a separate conversation.

    ::

        critic = ToolChannel("local:smollm2", name="critic", description="Finds flaws in a text.")
        engine = Engine("anthropic:claude", tools=[critic])

    Args:
        model: As for :class:`.AsyncChannel`, like the arguments not listed here.
        name: The name by which the other model calls it.
        description: Purpose of the tool, which is all that the calling model knows about it.
        prompt: The prompt, whose variables are the arguments; by default there is one argument,
            ``text``.
        parser: Its value is the result; by default that is the text of the answer.
        conversation: The start of each call's conversation.
        depth: Maximum depth of channels that call channels, including this one.
        effect, needs_approval: See :class:`.Invoker`.
        settings: Further arguments of :class:`.Engine`; its limits apply to each call.

    Attributes:
        usage: Usage of all calls; ``None`` while no vendor has reported any. It does not count
            towards the limits of the calling engine.
    """

    def __init__(
        self,
        model: AnyModel = "",
        *,
        name: str,
        description: str,
        parser: Any = None,
        depth: int = DEPTH_LIMIT,
        effect: Effect | str = Effect.ONCE,
        needs_approval: bool = False,
        **settings: Unpack[ChannelSettings],
    ) -> None:
        self.name = name
        self.usage: Usage | None = None
        self._depth = depth
        self._channel: AsyncChannel[Any] = AsyncChannel(model, parser=parser, **settings)
        self.__dict__[MARK] = {
            "name": name,
            "description": description,
            "schema": _derive_schema(self._channel.prompt),
            "effect": effect,
            "needs_approval": needs_approval,
            "time_limit_seconds": None,  # the limits of its own runs apply
        }
        produce_invoker(self)  # reports invalid arguments now, not at the first call

    def __repr__(self) -> str:
        return represent("ToolChannel", (("name", self.name),))

    @property
    def invoker(self) -> Invoker:
        """The invoker of this channel."""
        return produce_invoker(self)

    async def __call__(self, context: InvocationContext, /, **arguments: Any) -> Outcome:
        """Answer one call."""
        depth = _depth.get()
        if depth >= self._depth:
            return fail(
                f"{self.name} was not called: channels would be nested {depth + 1} deep, but "
                f"at most {self._depth} are allowed. Continue without it."
            )
        token = _depth.set(depth + 1)
        try:
            return await self._ask(arguments)
        finally:
            _depth.reset(token)

    async def _ask(self, arguments: dict[str, Any]) -> Outcome:
        channel = self._channel.fork()
        if self._channel.prompt is None:
            reply = await channel.ask(arguments["text"])
        else:
            reply = await channel.ask(**arguments)
        if reply.usage is not None:
            self.usage = reply.usage if self.usage is None else self.usage + reply.usage
        if reply.has_value:
            return produce_outcome(reply.value)
        if reply.requests:
            names = ", ".join(sorted({request.name for request in reply.requests}))
            return fail(f"{self.name} failed: no approver is set for {names}.")
        return fail(f"{self.name} failed: {reply.outcome.detail} {reply.text}".strip())

    async def close(self) -> None:
        """Disconnect the tools and close the model."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        await self._channel.__aenter__()
        return self


def _derive_schema(prompt: Composing | None) -> JsonObject:
    """Return the schema of the arguments: the prompt's own, or a string for each variable."""
    if prompt is None:
        text = {"type": "string", "description": "The question or the task."}
        properties: dict[str, Any] = {"text": text}
        required = ["text"]
    elif prompt.schema is not None:
        return prompt.schema
    else:
        properties = {name: {"type": "string"} for name in sorted(prompt.variables)}
        required = sorted(prompt.required)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
