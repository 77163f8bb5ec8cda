"""Fields of a response other than its output."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Fields: TypeAlias = dict[str, Any]
"""A JSON object of the protocol."""

_ECHOED: Final[Mapping[str, Any]] = {
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": "default",
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""Fields of the request that a response repeats, with their defaults."""


def complete_body(body: Mapping[str, Any], request: Mapping[str, Any]) -> Fields:
    """Return a response with all fields of the protocol; existing ones are kept.

    Args:
        request: The client's request, whose fields a response repeats.
    """
    complete_response: Fields = {
        "object": "response",
        "created_at": int(time.time()),
        "error": None,
        "incomplete_details": None,
        "background": bool(request.get("background")),
        "usage": None,
    }
    for name, default in _ECHOED.items():
        complete_response[name] = request[name] if request.get(name) is not None else default
    if conversation := read_conversation(request.get("conversation")):
        complete_response["conversation"] = {"id": conversation}
    # The upstream received the earlier items in the request, so it does not know these values.
    gateway_fields = ("previous_response_id", "conversation", "store", "background", "metadata")
    return {
        **complete_response,
        **body,
        **{name: complete_response[name] for name in gateway_fields if name in complete_response},
    }


def select_continuation(request: Mapping[str, Any]) -> Fields:
    """Return the fields that name the response or conversation that a request continues."""
    fields: Fields = {}
    if request.get("previous_response_id"):
        fields["previous_response_id"] = request["previous_response_id"]
    if conversation := read_conversation(request.get("conversation")):
        fields["conversation"] = {"id": conversation}
    return fields


def read_conversation(value: object) -> str:
    """Return the id in a request's field ``conversation``; empty without one."""
    if isinstance(value, Mapping):
        value = value.get("id")
    return value if isinstance(value, str) else ""


def interrupt_body(body: Mapping[str, Any], status: str) -> Fields:
    """Return the body of a response that was interrupted."""
    reason = {"reason": "interrupted"} if status == "incomplete" else None
    return {**body, "status": status, "incomplete_details": reason}
