"""Messages of ``local``: Chat Completions, with invocations and results as plain text.

The templates of small models do not support tools, and those of other models do so in many ways.
So invocations are written as text, in the format that the grammar enforces: every model can read
that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

import attrs
import msgspec

from vibe_llms.dialects import chat_completions
from vibe_llms.dialects.chat_completions.calling.messages import nativize_canisters
from vibe_llms.dialects.history import convert_result
from vibe_llms.dialects.processors import FunctionProcessor
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
)
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.local.controls import QUIRKS


def _write(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    """Return ``{"messages": […]}``. Raises CapabilityError for an image or other media."""
    plain = [_write_plainly(canister) for canister in request.canisters]
    translation = nativize_canisters(plain, model.attributes, QUIRKS)
    messages = cast(Sequence[Mapping[str, Any]], translation.value["messages"])
    losses = (*translation.losses, *_survey_coerced(request.canisters))
    return Translation({"messages": _merge_neighbours(messages)}, losses)


MESSAGES: Final = FunctionProcessor(
    _write, lambda native, _: chat_completions.normalize_messages(native)
)


def _survey_coerced(canisters: Sequence[AnyCanister]) -> Iterator[Loss]:
    """Yield losses for invocations and results that the model sees as plain text."""
    for index, canister in enumerate(canisters):
        if isinstance(canister, (InvocationCanister, ResultCanister)) and (
            canister.owner is Owner.OURS
        ):
            reason = "invocations and results are sent as text: a grammar produces them here"
            yield Loss(kind=LossKind.COERCED, path=f"canisters[{index}]", reason=reason)


def write_invocation(name: str, arguments: str) -> str:
    """Write an invocation as in the grammar; arguments that are not JSON become a JSON string."""
    arguments = arguments if arguments.strip() else "{}"
    try:
        msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        arguments = msgspec.json.encode(arguments).decode("utf-8")
    return f'{{"name": {msgspec.json.encode(name).decode("utf-8")}, "arguments": {arguments}}}'


def _write_plainly(canister: AnyCanister) -> AnyCanister:
    """Return a canister whose content is plain text instead of an invocation or a result."""
    match canister:
        case InvocationCanister(owner=Owner.OURS):
            text = write_invocation(canister.name, canister.arguments)
            return AssistantCanister(text, turn_id=canister.turn_id)
        case ResultCanister(owner=Owner.OURS):
            return convert_result(canister)
        case AssistantCanister():
            return attrs.evolve(canister, turn_id=None)
    return canister


def _merge_neighbours(messages: Sequence[Mapping[str, Any]]) -> list[JsonObject]:
    """Merge adjacent messages of the model: llama.cpp accepts only one at the end."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        last = merged[-1] if merged else None
        if last is not None and last["role"] == message["role"] == "assistant":
            last["content"] = f"{last['content']}\n{message['content']}"
        else:
            merged.append(dict(message))
    return list(merged)
