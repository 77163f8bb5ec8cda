"""Invocables of ``local``: described to the model as text, and enforced by a grammar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, cast

import msgspec

from vibe_llms.dialects import chat_completions
from vibe_llms.dialects.chat_completions.calling.invocations import (
    nativize_schema,
    withhold_schemaless,
)
from vibe_llms.dialects.processors import FunctionProcessor
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.local.grammars import (
    compose_choice_grammar,
    compose_invocation_schema,
    compose_text_grammar,
    prepare_schema,
)
from vibe_llms.providers.local.messages import write_invocation


def _write(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    """Return ``messages`` with the description, and the constraints on the answer.

    A schema is also a constraint: one grammar enforces both the schema and the invocations.
    """
    choice = find_effective_choice(request, model)
    constraint = constrain(request.invocables, choice.value, request.schema, model)
    native = constraint.value
    if not native and repeats_result(request, model):
        native = require_text()
    return Translation(native, (*choice.losses, *constraint.losses))


INVOCATIONS: Final = FunctionProcessor(
    _write, lambda native, _: chat_completions.normalize_invocables(native)
)


def constrain(
    invocables: Sequence[InvocableDescription],
    choice: str,
    schema: JsonObject | None,
    model: ModelDescriptor,
) -> Translation[JsonObject]:
    """Return the description of the invocables, and the grammar for them or for a schema.

    The first message has the instructions; further messages are examples.
    """
    losses: list[Loss] = []
    offered = withhold_schemaless(select_offered(invocables, choice), losses)
    answer = None if schema is None else prepare_schema(schema, losses)
    if not offered:
        if choice not in ("auto", "none"):
            reason = f"{choice}: this model supports none of the invocables"
            losses.append(Loss(kind=LossKind.DROPPED, path="invocation_choice", reason=reason))
        return Translation(nativize_schema(answer).value, losses)
    messages: list[JsonObject] = [{"role": "system", "content": _describe(offered)}]
    native: dict[str, Any] = {"messages": messages}
    invocation = compose_invocation_schema(offered, losses)
    if choice == "auto":
        native["grammar"] = compose_choice_grammar(invocation, answer)
        capability = model.attributes.access_capability("supports_described_invocations")
        if answer is None and capability is Capability.NO:
            messages += _demonstrate(offered)
    else:
        native |= nativize_schema(invocation).value
    return Translation(native, losses)


def require_text() -> JsonObject:
    """Return an example and a grammar that make the model answer a result with text.

    The answer in the example repeats the result literally: with a rephrased one, the model negated
    results ("It is not rain in Rome").
    """
    call = write_invocation("day", "{}")
    messages = (
        {"role": "user", "content": "Which day is it?"},
        {"role": "assistant", "content": call},
        {"role": "user", "content": "Result of day:\nIt is Monday."},
        {"role": "assistant", "content": "It is Monday."},
    )
    return {"messages": messages, "grammar": compose_text_grammar()}


def find_effective_choice(request: Request, model: ModelDescriptor) -> Translation[str]:
    """Return the effective choice: after a result, a very small model must answer with text.

    Otherwise the model would repeat the call that it sees until the window is full.
    """
    may_choose = bool(request.invocables) and request.invocation_choice == "auto"
    if not (may_choose and repeats_result(request, model)):
        return Translation(request.invocation_choice)
    reason = "the model would repeat the call; after a result, it answers in words"
    loss = Loss(kind=LossKind.COERCED, path="invocation_choice", reason=reason)
    return Translation("none", (loss,))


def repeats_result(request: Request, model: ModelDescriptor) -> bool:
    """Return whether the model can only repeat the result that it must answer."""
    chains = model.attributes.access_capability("supports_chained_invocations")
    return isinstance(request.canisters[-1], ResultCanister) and chains is Capability.NO


def select_offered(
    invocables: Sequence[InvocableDescription], choice: str
) -> tuple[InvocableDescription, ...]:
    """Return the invocables that the model may call now."""
    if choice == "none":
        return ()
    return tuple(each for each in invocables if choice in (*CHOICES, each.name))


def _describe(invocables: Sequence[InvocableDescription]) -> str:
    lines = ["You can use these tools:"]
    for invocable in invocables:
        schema = msgspec.json.encode(invocable.schema).decode("utf-8")
        lines.append(f"- {invocable.name}: {invocable.description} Arguments: {schema}")
    example = write_invocation(invocables[0].name, "{…}").replace('"{…}"', "{…}")
    lines.append(f"To use one, answer with JSON and nothing else: {example}")
    return "\n".join(lines)


def _demonstrate(invocables: Sequence[InvocableDescription]) -> Iterator[JsonObject]:
    """Yield example turns that show a very small model how to answer with text, and how to invoke.

    A description alone is not enough: the embedded model never invoked. Of some thirty measured
    variants, this order, with one greeting and the description as a question, was the best at
    distinguishing questions that need a call from others.
    """
    yield {"role": "user", "content": "Hello!"}
    yield {"role": "assistant", "content": "Hello! How can I help you?"}
    for invocable in invocables:
        schema = invocable.schema or {}
        names = schema.get("required") or schema.get("properties") or ()
        arguments = {str(name): "…" for name in cast(Iterable[object], names)}
        call = write_invocation(invocable.name, msgspec.json.encode(arguments).decode("utf-8"))
        yield {"role": "user", "content": invocable.description or invocable.name}
        yield {"role": "assistant", "content": call}
