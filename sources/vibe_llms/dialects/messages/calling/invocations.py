"""Translation of invocables to tools, of the tool choice, and of schemas."""

from __future__ import annotations

from typing import Any, Final

from vibe_llms.dialects.cache_hints import add_cache_control
from vibe_llms.dialects.extras import AS_IT_IS, merge
from vibe_llms.dialects.invocations import (
    NO_ARGUMENTS,
    InvocablesWriter,
    Offer,
    allows_any_object,
    describe,
    write_parameters,
)
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.messages.calling.schemas import (
    can_be_enforced,
    make_enforceable,
)
from vibe_llms.dialects.messages.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.messages.tables import CHOICE_WORDS
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.models.schema_features import MAPS, RECURSION, survey_features

_NO_BOUNDS: Final = ", without bounds of numbers, texts and lists"


def _write_tool(
    invocable: InvocableDescription, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any] | None:
    if invocable.schema is None:
        ledger.withhold(
            path,
            f"{invocable.name} takes free text, and the vendor accepts only tools with a schema",
        )
        return None
    extras = ledger.read_sendable(invocable.native, path)
    schema = write_parameters(invocable, extras) or NO_ARGUMENTS
    tool = {"name": invocable.name, "input_schema": schema, **describe(invocable)}
    if invocable.enforced and (extras.get(AS_IT_IS) or can_be_enforced(schema)):
        tool["strict"] = True
    elif invocable.enforced:
        ledger.drop(f"{path}.enforced", f"the vendor enforces only closed schemas{_NO_BOUNDS}")
    return merge(tool, extras)


def _mark_tool(
    tool: dict[str, Any], hint: CacheHint, path: str, quirks: Quirks, ledger: Ledger
) -> dict[str, Any]:
    return add_cache_control(tool, hint, path, ledger)


def _compose(offer: Offer) -> dict[str, Any]:
    tools, choice = offer.tools, offer.choice
    native: dict[str, Any] = {"tools": list(tools.values())} if tools else {}
    if choice in tools:
        native["tool_choice"] = {"type": "tool", "name": choice}
    elif tools and choice != "auto":  # the default
        native["tool_choice"] = {"type": CHOICE_WORDS[choice]}
    return native


nativize_invocables = InvocablesWriter(
    PROTOCOL, _write_tool, _compose, mark_tool=_mark_tool, service="anthropic"
).nativize


def nativize_schema(schema: JsonObject | None, ledger: Ledger | None = None) -> JsonObject:
    """Return the ``output_config`` that constrains an answer to a schema.

    Args:
        ledger: Records constraints that cannot be enforced; without a ledger, the schema is sent
            unchanged.
    """
    if schema is None:
        return {}
    # Such a schema is not an object with typed values, which closing would lose.
    allows_any_value = schema.get("additionalProperties", True) in (True, {})
    if ledger is not None and allows_any_object(schema) and allows_any_value:
        ledger.drop(
            "schema", "the vendor enforces only closed schemas, and this one has no properties"
        )
        return {}
    if ledger is not None:
        _ensure_enforceable(schema)
    if ledger is not None and not can_be_enforced(schema):
        schema = make_enforceable(schema)
        ledger.coerce("schema", f"its objects are closed{_NO_BOUNDS}: no others are enforced")
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}


_UNSUPPORTED_FEATURES: Final = {
    MAPS: "has an object without fixed property names",
    RECURSION: "refers to itself",
}


def _ensure_enforceable(schema: JsonObject) -> None:
    """Reject a schema that the vendor rejects, or that would become empty."""
    for feature in survey_features(schema):
        raise RequestError(
            path="schema",
            detail=f"The schema {_UNSUPPORTED_FEATURES[feature]}, which Anthropic's structured "
            "output does not support.",
            remedy="Use a Parser, which requests a tool call instead; or a list of objects with "
            "a name and a value.",
        )
