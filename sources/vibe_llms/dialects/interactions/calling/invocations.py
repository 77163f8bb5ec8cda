"""Descriptions of invocables as tools, the tool choice, and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.interactions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.interactions.tables import CHOICES, CONFIG, JSON_TYPE
from vibe_llms.dialects.invocations import (
    InvocablesWriter,
    Offer,
    allows_any_object,
    describe,
    write_parameters,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.descriptions import InvocableDescription


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any] | None:
    if invocable.schema is None:
        ledger.withhold(path, f"{invocable.name} has no schema, and is not a tool of this vendor")
        return None
    function = {"type": "function", "name": invocable.name, **describe(invocable)}
    extras = ledger.read_sendable(invocable.native, path)
    function["parameters"] = write_parameters(invocable, extras)
    return merge(function, extras)


def _compose(offer: Offer) -> dict[str, Any]:
    """Return ``tools``, and the choice in ``generation_config``."""
    if not offer.tools:
        return {}
    choice = _write_choice(offer)
    config = {} if choice is None else {CONFIG: {"tool_choice": choice}}
    return {"tools": [*offer.tools.values()], **config}


def _write_choice(offer: Offer) -> Any:
    if offer.choice in CHOICES:
        return CHOICES[offer.choice]
    if offer.choice != "auto":
        return {"allowed_tools": {"mode": "any", "tools": [offer.choice]}}
    functions = [
        (index, invocable)
        for index, invocable in enumerate(offer.invocables)
        if invocable.schema is not None
    ]
    enforced = [index for index, invocable in functions if invocable.enforced]
    if enforced and len(enforced) == len(functions):
        return "validated"
    for index in enforced:
        reason = "the vendor enforces the schemas of all functions, or of none"
        offer.ledger.coerce(f"invocables[{index}].enforced", reason)
    return None


def _is_function(tool: Mapping[str, Any]) -> bool:
    return tool.get("type") == "function"


nativize_invocables = InvocablesWriter(
    PROTOCOL, _write_tool, _compose, _is_function, service="gemini"
).nativize


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Return the ``response_format`` that constrains an answer to a schema."""
    if schema is None:
        return {}
    text_format: dict[str, Any] = {"type": "text", "mime_type": JSON_TYPE}
    if not allows_any_object(schema):
        text_format["schema"] = schema
    return {"response_format": text_format}
