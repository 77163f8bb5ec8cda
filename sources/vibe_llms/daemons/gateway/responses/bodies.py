"""What a response says of itself beside its output."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Fields: TypeAlias = dict[str, Any]
"""An object in the words of the protocol."""

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
"""What a response repeats of its request, and what stands there where nothing was asked."""


def complete_body(body: Mapping[str, Any], asked: Mapping[str, Any]) -> Fields:
    """Returns a response with all that the vendor's own would say; what it says stands."""
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
    # What was said before went along with the request: of what it was called, no upstream knows.
    ours = ("previous_response_id", "conversation", "store", "background", "metadata")
    return {**whole, **body, **{name: whole[name] for name in ours if name in whole}}


def select_told(asked: Mapping[str, Any]) -> Fields:
    """Returns what a response goes on from, as it says itself; empty where from nothing."""
    told: Fields = {}
    if asked.get("previous_response_id"):
        told["previous_response_id"] = asked["previous_response_id"]
    if conversation := read_conversation(asked.get("conversation")):
        told["conversation"] = {"id": conversation}
    return told


def read_conversation(given: object) -> str:
    """Returns the id of the conversation that a request names; empty where it names none."""
    if isinstance(given, Mapping):
        given = given.get("id")
    return given if isinstance(given, str) else ""


def interrupt_body(body: Mapping[str, Any], status: str) -> Fields:
    """Returns a response whose answer has not come to its end."""
    reason = {"reason": "interrupted"} if status == "incomplete" else None
    return {**body, "status": status, "incomplete_details": reason}
