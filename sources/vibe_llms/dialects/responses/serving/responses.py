"""A whole response in the vendor's format, for gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.calls import produce_item_id
from vibe_llms.dialects.responses.calling.messages import ItemsWriter
from vibe_llms.dialects.responses.calling.parts import PartsWriter
from vibe_llms.dialects.responses.namespaces import Home, find_homes
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.responses.tables import INCOMPLETE_REASONS
from vibe_llms.dialects.serving import (
    UNKNOWN_MODEL,
    keeps_word,
    nativize_openai_usage,
    repeat_usage,
    tell_stop,
)
from vibe_llms.dialects.signatures import wrap_response
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import InvocationCanister, Origin, Owner, StopReason
from vibe_llms.messages.contents import RefusalContent
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response

_REASONS: Final = {
    StopReason.LIMIT: "max_output_tokens",
    StopReason.OVERFLOW: "max_output_tokens",
    StopReason.FILTERED: "content_filter",
    StopReason.PAUSED: "max_messages",
}
"""Reason of an incomplete response for each stop reason."""

_STATUSES: Final = {
    StopReason.FAILED: "failed",
    StopReason.INTERRUPTED: "cancelled",
    StopReason.UNKNOWN: "incomplete",
}
"""Status for each stop reason that needs no other field; ``completed`` for any other."""


_SILENCE: Final[Mapping[str, Any]] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
"""Fields that each response has, with their values if the request did not set them."""

SILENT: Final[Mapping[str, Any]] = {
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [],
}
"""The message of a model that had nothing to add."""

_ECHOED: Final = (
    *_SILENCE,
    "background",
    "max_output_tokens",
    "max_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "store",
    "temperature",
    "text",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)


def nativize_response(response: Response) -> Translation[JsonObject]:
    """Return the body of a response of any vendor."""
    response = wrap_response(response, PROTOCOL)
    metadata = response.metadata
    origin = metadata.origin
    ledger = Ledger(protocol=PROTOCOL)
    writer = produce_items_writer(ledger, find_homes(response.request.invocables))
    writer.write(
        HistoryEntry(canister, f"canisters[{index}]")
        for index, canister in enumerate(response.canisters)
    )
    first = response.canisters[0] if response.canisters else None
    identity = response.request.digest() if first is None else first.id
    native: dict[str, Any] = {
        "id": origin.response_id or produce_item_id("resp", identity),
        "object": "response",
        "model": origin.model,
        "error": None,
        "output": [each.item for each in writer.written],
        **_compose_status(response, ledger),
    }
    if origin.protocol != PROTOCOL:
        # Clients require an index. A model that had nothing to add has said so in a message, and a
        # response without items looks like a lost answer.
        native["created_at"] = int((access_now() if first is None else first.timestamp).timestamp())
        if not native["output"] and native["status"] == "completed":
            native["output"] = [{**SILENT, "id": produce_item_id("msg", identity)}]
    if origin.usage is not None:
        names = {"asked": "input_tokens", "answered": "output_tokens"}
        native["usage"] = repeat_usage(origin, PROTOCOL) or nativize_openai_usage(
            origin.usage, **names, ledger=ledger
        )
    extras = ledger.open(metadata.native, "native")
    if "status" in extras:
        del native["incomplete_details"]  # the vendor's own are in the extras, too
    return Translation(merge(native, extras), ledger.losses)


def produce_items_writer(ledger: Ledger, homes: Mapping[str, Home]) -> ItemsWriter:
    """Return the writer for the items of an answer.

    Args:
        homes: The namespaces of tools, by their names here.
    """
    parts = PartsWriter(UNKNOWN_MODEL, Quirks(), ledger)
    return ItemsWriter(parts=parts, is_answer=True, homes=homes)


def echo_request(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a client's request that a response repeats, with their defaults."""
    echoed = {name: asked[name] for name in _ECHOED if asked.get(name) is not None}
    return {**_SILENCE, **echoed}


def _compose_status(response: Response, ledger: Ledger) -> dict[str, Any]:
    origin = response.metadata.origin
    word = origin.native_stop_reason
    if keeps_word(origin, PROTOCOL) and word is not None:
        reason = None if word == "completed" else word
    else:
        reason = _REASONS.get(origin.stop_reason)
        if status := _STATUSES.get(origin.stop_reason):
            return {"status": status, "incomplete_details": None, **_tell_failure(status, origin)}
        word = reason or "completed"
        understood = INCOMPLETE_REASONS.get(word) or _find_end(response)
        tell_stop(origin, word, understood, ledger)
    if reason is None:
        return {"status": "completed", "incomplete_details": None}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _tell_failure(status: str, origin: Origin) -> dict[str, Any]:
    """Return the error of a failed answer: only the vendor's status is known."""
    if status != "failed":
        return {}
    word = origin.native_stop_reason or "no reason given"
    message = f"The model of {origin.provider} did not complete its answer: {word}."
    return {"error": {"code": "server_error", "message": message}}


def _find_end(response: Response) -> StopReason:
    """Return the stop reason that the contents of a completed response imply."""
    calls = (each for each in response.canisters if isinstance(each, InvocationCanister))
    if any(call.owner is Owner.OURS for call in calls):
        return StopReason.INVOCATION
    contents = (content for each in response.canisters for content in each.content)
    refuses = any(isinstance(content, RefusalContent) for content in contents)
    return StopReason.REFUSED if refuses else StopReason.ANSWERED
