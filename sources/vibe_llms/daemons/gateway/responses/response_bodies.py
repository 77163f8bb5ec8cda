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


def complete_body(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Fields:
    """Return a response with all fields of the vendor's own; existing ones are kept."""
    whole: Fields = {
        "object": "response",
        "created_at": int(time.time()),
        "error": None,
        "incomplete_details": None,
        "background": bool(asked.get("background")),
        "usage": None,
    }
    for name, default in _ECHOED.items():
        whole[name] = asked[name] if asked.get(name) is not None else default
    if conversation := read_conversation(asked.get("conversation")):
        whole["conversation"] = {"id": conversation}
    # The upstream received the earlier items in the request, and does not know their ids.
    ours = ("previous_response_id", "conversation", "store", "background", "metadata")
    return {**whole, **body, **{name: whole[name] for name in ours if name in whole}}


def select_told(asked: Mapping[str, Any]) -> Fields:
    """Return the fields that name what a response continues; empty if nothing."""
    told: Fields = {}
    if asked.get("previous_response_id"):
        told["previous_response_id"] = asked["previous_response_id"]
    if conversation := read_conversation(asked.get("conversation")):
        told["conversation"] = {"id": conversation}
    return told


def read_conversation(given: object) -> str:
    """Return the id of the conversation in a request; empty without one."""
    if isinstance(given, Mapping):
        given = given.get("id")
    return given if isinstance(given, str) else ""


def interrupt_body(body: Mapping[str, Any], status: str) -> Fields:
    """Return the body of a response that was interrupted."""
    reason = {"reason": "interrupted"} if status == "incomplete" else None
    return {**body, "status": status, "incomplete_details": reason}
