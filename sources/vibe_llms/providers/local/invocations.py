"""Invocables of ``local``: told to the model in words, and held to by a grammar."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from vibe_llms.dialects.chat_completions.invocations import (
    nativize_schema,
    normalize_invocables,
    withhold_schemaless,
)
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import ResultCanister
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.local.grammars import (
    compose_choice_grammar,
    compose_invocation_schema,
    prepare_schema,
)
from vibe_llms.providers.local.messages import write_invocation


class LocalInvocationsProcessor:
    """Describes invocables in a message, and constrains the answer."""

    def nativize(
        self, invocables: Sequence[InvocableDescription], choice: str, model: ModelDescriptor
    ) -> Translation[JsonObject]:
        """Returns ``messages`` with the description, and what the answer is held to.

        Raises:
            RequestError: The choice names something that is not among the invocables.
        """
        return constrain(invocables, choice, None)

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Returns the descriptions and the choice in a client's request."""
        return normalize_invocables(native)


def constrain(
    invocables: Sequence[InvocableDescription], choice: str, schema: JsonObject | None
) -> Translation[JsonObject]:
    """Returns what tells of the invocables, and what holds the answer to them or to a schema.

    Raises:
        RequestError: The choice names something that is not among the invocables.
    """
    losses: list[Loss] = []
    offered = withhold_schemaless(select_offered(invocables, choice), losses)
    answer = None if schema is None else prepare_schema(schema, losses)
    if not offered:
        if choice not in ("auto", "none"):
            reason = f"{choice}: nothing of it can be offered to this model"
            losses.append(Loss(kind=LossKind.DROPPED, path="invocation_choice", reason=reason))
        return Translation(nativize_schema(answer).value, losses)
    native: dict[str, Any] = {"messages": [{"role": "system", "content": _describe(offered)}]}
    invocation = compose_invocation_schema(offered, losses)
    if choice == "auto":
        native["grammar"] = compose_choice_grammar(invocation, answer)
    else:
        native |= nativize_schema(invocation).value
    return Translation(native, losses)


def choose(request: Request, model: ModelDescriptor) -> Translation[str]:
    """Returns what the model may choose: after a result, a very small one only words.

    Such a model makes the call that it sees again, until its window is full.
    """
    chains = model.attributes.access_capability("supports_chained_invocations")
    is_answered = isinstance(request.canisters[-1], ResultCanister)
    may_choose = bool(request.invocables) and request.invocation_choice == "auto"
    if not (may_choose and is_answered and chains is Capability.NO):
        return Translation(request.invocation_choice)
    reason = "the model repeats a call whose result it sees; after one, it answers in words"
    loss = Loss(kind=LossKind.COERCED, path="invocation_choice", reason=reason)
    return Translation("none", (loss,))


def select_offered(
    invocables: Sequence[InvocableDescription], choice: str
) -> tuple[InvocableDescription, ...]:
    """Returns the invocables among which the model may choose now. Raises RequestError."""
    if choice == "none":
        return ()
    if choice in CHOICES:
        return tuple(invocables)
    named = tuple(invocable for invocable in invocables if invocable.name == choice)
    if named:
        return named
    raise RequestError(
        path="invocation_choice",
        detail=f"The choice {choice!r} is not among the invocables.",
        remedy=f"Known: {', '.join((*CHOICES, *(i.name for i in invocables)))}.",
    )


def _describe(invocables: Sequence[InvocableDescription]) -> str:
    lines = ["You can use these tools:"]
    for invocable in invocables:
        schema = msgspec.json.encode(invocable.schema).decode("utf-8")
        lines.append(f"- {invocable.name}: {invocable.description} Arguments: {schema}")
    example = write_invocation(invocables[0].name, "{…}").replace('"{…}"', "{…}")
    lines.append(f"To use one, answer with JSON and nothing else: {example}")
    return "\n".join(lines)
