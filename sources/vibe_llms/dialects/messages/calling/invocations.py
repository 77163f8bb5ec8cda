"""Descriptions of invocables as tools, the choice among them, and schemas."""

from __future__ import annotations

from typing import Any

from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.invocations import InvocablesWriter, Offer, describe
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.messages.tables import CHOICE_WORDS
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.plain import JsonObject


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any] | None:
    if invocable.schema is None:
        ledger.withhold(path, f"{invocable.name} takes free text, and only schemas can be offered")
        return None
    tool = {"name": invocable.name, "input_schema": invocable.schema, **describe(invocable)}
    strict = {"strict": True} if invocable.enforced else {}
    return merge({**tool, **strict}, ledger.open(invocable.native, path))


def _compose(offer: Offer) -> dict[str, Any]:
    tools, choice = offer.tools, offer.choice
    native: dict[str, Any] = {"tools": list(tools.values())} if tools else {}
    if choice in tools:
        native["tool_choice"] = {"type": "tool", "name": choice}
    elif tools and choice != "auto":  # what silence means
        native["tool_choice"] = {"type": CHOICE_WORDS[choice]}
    return native


nativize_invocables = InvocablesWriter(PROTOCOL, _write_tool, _compose).nativize


def nativize_schema(schema: JsonObject | None) -> JsonObject:
    """Returns the ``output_config`` which holds an answer to a schema."""
    if schema is None:
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
