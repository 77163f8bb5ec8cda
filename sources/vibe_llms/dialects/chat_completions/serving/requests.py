"""A client's whole request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving.controls import list_fields, normalize_controls
from vibe_llms.dialects.chat_completions.serving.invocations import (
    compare_choice,
    normalize_invocables,
    normalize_schema,
)
from vibe_llms.dialects.chat_completions.serving.messages import normalize_messages
from vibe_llms.dialects.residues import keep_native, leave, without
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request, is_answerable
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.plain import JsonObject

_OWN: Final = ("messages", "model", "tools", "functions", "response_format", "tool_choice")


def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns the request of a client: what a gateway reads.

    Args:
        attributes: Of the model, which say what is a control of it; by default all controls
            that the dialect knows are.

    Raises:
        RequestError: The request makes no sense.
    """
    messages = normalize_messages(native)
    controls = normalize_controls(native, attributes)
    tools = normalize_invocables(native)
    schema = normalize_schema(native)
    invocables, choice = tools.value
    kept = leave(native, *_OWN, *list_fields(native, controls.value))
    if not compare_choice(native, choice, invocables):
        kept["$choice"] = {"said": native["tool_choice"], "meant": choice}
    kept |= _keep_format(native, schema.value)
    canisters = messages.value
    request = Request(
        canisters=canisters,
        model=str(native.get("model") or ""),
        controls=controls.value,
        invocables=invocables,
        invocation_choice=choice,
        schema=schema.value,
        continuation=bool(canisters) and not is_answerable(canisters[-1]),
        native=keep_native(PROTOCOL, kept),
    )
    return Translation(request, (*messages.losses, *tools.losses, *schema.losses))


def _keep_format(native: Mapping[str, Any], schema: JsonObject | None) -> dict[str, Any]:
    """Returns what a wanted format says beyond its schema."""
    wanted = native.get("response_format")
    if wanted is None:
        return {}
    if schema is None or not isinstance(wanted, Mapping):
        return {"response_format": wanted}
    inner = wanted.get("json_schema")
    if not isinstance(inner, Mapping):
        return {} if wanted == {"type": "json_object"} else {"response_format": wanted}
    return {"$wanted": {**wanted, "json_schema": without(inner, "schema")}}
