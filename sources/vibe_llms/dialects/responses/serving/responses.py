"""A whole response in the vendor's format, for gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.executions import adopt_executions
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.calls import produce_item_id
from vibe_llms.dialects.responses.calling.messages import ItemsWriter
from vibe_llms.dialects.responses.calling.parts import PartsWriter
from vibe_llms.dialects.responses.namespaces import QualifiedName, find_qualified_names
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.responses.serving.executions import FORMS, complete_citations
from vibe_llms.dialects.responses.tables import INCOMPLETE_REASONS
from vibe_llms.dialects.serving import (
    UNKNOWN_MODEL,
    keeps_native_stop_reason,
    nativize_openai_usage,
    repeat_usage,
    report_stop_reason,
)
from vibe_llms.dialects.signatures import wrap_response
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import InvocationCanister, Origin, Owner, StopReason
from vibe_llms.messages.contents import RefusalContent
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Response

_REASONS_BY_STOP_REASON: Final = {
    StopReason.LIMIT: "max_output_tokens",
    StopReason.OVERFLOW: "max_output_tokens",
    StopReason.FILTERED: "content_filter",
    StopReason.PAUSED: "max_messages",
}
"""Reason of an incomplete response for each stop reason."""

_STATUSES_BY_STOP_REASON: Final = {
    StopReason.FAILED: "failed",
    StopReason.INTERRUPTED: "cancelled",
    StopReason.UNKNOWN: "incomplete",
}
"""Status for each stop reason that needs no other field; ``completed`` for any other."""


_REQUIRED_FIELDS: Final[Mapping[str, Any]] = {
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}
"""Fields of each response, with the values for fields that the request did not set."""

EMPTY_MESSAGE: Final[Mapping[str, Any]] = {
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [],
}
"""The message of a model that had nothing to add."""

_REPEATED_FIELDS: Final = (
    *_REQUIRED_FIELDS,
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
    ledger = Ledger(protocol=PROTOCOL)
    response = wrap_response(adopt_executions(response, FORMS, ledger), PROTOCOL)
    if response.metadata.origin.protocol != PROTOCOL:
        response = complete_citations(response)
    metadata = response.metadata
    origin = metadata.origin
    writer = produce_items_writer(ledger, find_qualified_names(response.request.invocables))
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
        # Clients require a creation time. A response without items looks like a lost answer: if the
        # model had nothing to add, an empty message is sent.
        native["created_at"] = int((access_now() if first is None else first.timestamp).timestamp())
        if not native["output"] and native["status"] == "completed":
            native["output"] = [{**EMPTY_MESSAGE, "id": produce_item_id("msg", identity)}]
    if origin.usage is not None:
        names = {"input_name": "input_tokens", "output_name": "output_tokens"}
        native["usage"] = repeat_usage(origin, PROTOCOL) or nativize_openai_usage(
            origin.usage, **names, ledger=ledger
        )
    extras = ledger.read_sendable(metadata.native, "native")
    if "status" in extras:
        del native["incomplete_details"]  # the vendor's fields are in the extras, too
    return Translation(merge(native, extras), ledger.losses)


def produce_items_writer(
    ledger: Ledger, qualified_names: Mapping[str, QualifiedName]
) -> ItemsWriter:
    """Return the writer for the items of an answer.

    Args:
        qualified_names: The qualified names of tools in namespaces, by their names in the
            conversation.
    """
    parts = PartsWriter(UNKNOWN_MODEL, Quirks(), ledger)
    return ItemsWriter(parts=parts, is_answer=True, qualified_names=qualified_names)


def echo_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a client's request that a response repeats, with their defaults."""
    echoed = {name: request[name] for name in _REPEATED_FIELDS if request.get(name) is not None}
    return {**_REQUIRED_FIELDS, **echoed}


def _compose_status(response: Response, ledger: Ledger) -> dict[str, Any]:
    origin = response.metadata.origin
    native_reason = origin.native_stop_reason
    if keeps_native_stop_reason(origin, PROTOCOL) and native_reason is not None:
        reason = None if native_reason == "completed" else native_reason
    else:
        reason = _REASONS_BY_STOP_REASON.get(origin.stop_reason)
        if status := _STATUSES_BY_STOP_REASON.get(origin.stop_reason):
            return {
                "status": status,
                "incomplete_details": None,
                **_compose_failure(status, origin),
            }
        native_reason = reason or "completed"
        understood = INCOMPLETE_REASONS.get(native_reason) or _find_completed_reason(response)
        report_stop_reason(origin, native_reason, understood, ledger)
    if reason is None:
        return {"status": "completed", "incomplete_details": None}
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _compose_failure(status: str, origin: Origin) -> dict[str, Any]:
    """Return the error of a failed answer: only the vendor's status is known."""
    if status != "failed":
        return {}
    native_reason = origin.native_stop_reason or "no reason given"
    message = f"The model of {origin.provider} did not complete its answer: {native_reason}."
    return {"error": {"code": "server_error", "message": message}}


def _find_completed_reason(response: Response) -> StopReason:
    """Return the stop reason that the contents of a completed response imply."""
    calls = (each for each in response.canisters if isinstance(each, InvocationCanister))
    if any(call.owner is Owner.OURS for call in calls):
        return StopReason.INVOCATION
    contents = (content for each in response.canisters for content in each.content)
    has_refused = any(isinstance(content, RefusalContent) for content in contents)
    return StopReason.REFUSED if has_refused else StopReason.ANSWERED
