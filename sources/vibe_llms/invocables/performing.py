"""Executing a call: in bounds, whatever the function does, and with an outcome in every case."""

from __future__ import annotations

from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.plain import JsonObject


async def perform(invoker: Invoker, arguments: JsonObject, context: InvocationContext) -> Outcome:
    """Executes one call. Never raises, but for cancellation."""
    raise NotImplementedError
