"""A whole request of a client or a recording, for gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import collect_extras, make_native
from vibe_llms.dialects.openai_caching import read_openai_hint
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.request_paths import look_up, take
from vibe_llms.dialects.responses.calling.invocations import nativize_invocables
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.serving.invocations import normalize_invocables, normalize_schema
from vibe_llms.dialects.responses.serving.messages import is_instruction_text, normalize_messages
from vibe_llms.dialects.responses.tables import PLACES, WITHOUT_PLACE
from vibe_llms.dialects.serving import compose_request, is_valid_control, refuse_invalid
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_READ_ELSEWHERE: Final = ("input", "model", "stream", "stream_options", "tools")
"""Fields that are decoded elsewhere; streaming only affects the form of the answer."""


@refuse_invalid("The request", "the Responses protocol")
def normalize_request(
    native: Mapping[str, Any],
    attributes: ModelAttributes | None = None,
    cache: ClientPrefixes | None = None,
) -> Translation[Request]:
    """Return a client's request; other fields are kept as native data.

    So are ``previous_response_id`` and ``conversation``, with which the vendor puts stored items
    before the items of the request.

    Args:
        attributes: The model's attributes, which define its controls; ``None`` uses all possible
            controls.
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: The request is invalid.
    """
    canisters = normalize_messages(native, cache)
    invocables = normalize_invocables(native)
    schema = normalize_schema(native)
    controls, other_fields = split_controls(native, attributes)
    name = str(native.get("model") or "")
    model = str(attrs.evolve(attributes.address, name=name)) if attributes and name else name
    extras = make_native(PROTOCOL, _collect_extras(other_fields, *invocables.value))
    hint, _ = read_openai_hint(native)
    return compose_request(
        canisters, controls, invocables, schema, native=extras, model=model, cache=hint
    )


def _collect_extras(
    other_fields: dict[str, Any], invocables: Sequence[InvocableDescription], choice: str
) -> dict[str, Any]:
    if nativize_invocables(invocables, choice).value.get("tool_choice") == other_fields.get(
        "tool_choice"
    ):
        other_fields.pop("tool_choice", None)
    text = other_fields.get("text")
    if isinstance(text, Mapping) and isinstance(text.get("format"), Mapping):
        other_fields["text"] = {**text, "format": _collect_format(text["format"])}
    if is_instruction_text(other_fields.get("instructions")):
        del other_fields["instructions"]
    # The vendor decides about parameters that the client omits; null disables the defaults of this
    # library.
    extras = {"store": None, "include": None, **collect_extras(other_fields, _READ_ELSEWHERE)}
    # Notes for writing the request in this protocol again: a default that the client sent, and the
    # common choice for which the native one was sent.
    if extras.get("tool_choice") == "auto":
        extras["$said"] = {"tool_choice": extras.pop("tool_choice")}
    if other_fields.get("stream_options"):
        extras["$stream_options"] = other_fields["stream_options"]
    return extras | ({"$choice": choice} if "tool_choice" in extras else {})


def _collect_format(answer_format: Mapping[str, Any]) -> dict[str, Any]:
    if answer_format.get("type") != "json_schema" or not isinstance(
        answer_format.get("schema"), Mapping
    ):
        return dict(answer_format)
    return {"strict": None, **collect_extras(answer_format, ("type", "schema"))}


def normalize_controls(
    parameters: JsonObject, attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Return the controls in a request; other parameters are kept."""
    return Translation(split_controls(parameters, attributes)[0])


def split_controls(
    parameters: JsonObject, attributes: ModelAttributes | None
) -> tuple[dict[str, JsonValue], dict[str, Any]]:
    """Return the controls, and the other parameters.

    Args:
        attributes: The model's attributes: only its controls with valid values are used. ``None``
            uses all possible controls.
    """
    controls: dict[str, JsonValue] = {}
    other_fields: dict[str, Any] = dict(parameters)
    for name, place in PLACES.items():
        value = look_up(other_fields, place)
        if value is not None and is_valid_control(name, value, attributes):
            controls[name] = take(other_fields, place)
    names = {each.name for each in attributes.controls} if attributes else set()
    # Controls that this protocol does not have stay in `other_fields`.
    for name in names - PLACES.keys() - WITHOUT_PLACE:
        if other_fields.get(name) is not None and name in parameters:
            controls[name] = other_fields.pop(name)
    return controls, other_fields
