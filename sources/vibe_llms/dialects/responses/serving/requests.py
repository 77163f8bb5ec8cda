"""A client's whole request, or a recorded one, in our words: what a gateway reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import leave, make_native
from vibe_llms.dialects.places import look_up, take
from vibe_llms.dialects.responses.calling.invocations import nativize_invocables
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.responses.serving.invocations import normalize_invocables, normalize_schema
from vibe_llms.dialects.responses.serving.messages import is_told, normalize_messages
from vibe_llms.dialects.responses.tables import PLACES, WITHOUT_PLACE
from vibe_llms.dialects.serving import compose_request, fits_control, refuse_nonsense
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_READ: Final = ("input", "model", "stream", "stream_options", "tools")
"""Fields that others read; a stream is a matter of how the answer is asked for."""


@refuse_nonsense("The request", "the Responses protocol")
def normalize_request(
    native: Mapping[str, Any], attributes: ModelAttributes | None = None
) -> Translation[Request]:
    """Returns a client's request in our words; what has none stays beside it.

    ``previous_response_id`` and ``conversation`` stay as well: the vendor then puts items of its
    own before those that are here.

    Args:
        attributes: Of the model, whose controls decide which parameters become controls;
            ``None`` takes all for controls that can be.

    Raises:
        RequestError: The request makes no sense.
    """
    canisters = normalize_messages(native)
    invocables = normalize_invocables(native)
    schema = normalize_schema(native)
    controls, rest = split_controls(native, attributes)
    name = str(native.get("model") or "")
    model = str(attrs.evolve(attributes.address, name=name)) if attributes and name else name
    left = make_native(PROTOCOL, _collect_extras(rest, *invocables.value))
    return compose_request(canisters, controls, invocables, schema, native=left, model=model)


def _collect_extras(
    rest: dict[str, Any], invocables: Sequence[InvocableDescription], choice: str
) -> dict[str, Any]:
    if nativize_invocables(invocables, choice).value.get("tool_choice") == rest.get("tool_choice"):
        rest.pop("tool_choice", None)
    text = rest.get("text")
    if isinstance(text, Mapping) and isinstance(text.get("format"), Mapping):
        rest["text"] = {**text, "format": _collect_format(text["format"])}
    if is_told(rest.get("instructions")):
        del rest["instructions"]
    # What a client has not said is for the vendor to decide, and not for our defaults.
    extras = {"store": None, "include": None, **leave(rest, _READ)}
    if extras.get("tool_choice") == "auto":  # which is what silence means
        extras["$said"] = {"tool_choice": extras.pop("tool_choice")}
    if rest.get("stream_options"):
        extras["$stream_options"] = rest["stream_options"]
    return extras | ({"$choice": choice} if "tool_choice" in extras else {})


def _collect_format(wanted: Mapping[str, Any]) -> dict[str, Any]:
    if wanted.get("type") != "json_schema" or not isinstance(wanted.get("schema"), Mapping):
        return dict(wanted)
    return {"strict": None, **leave(wanted, ("type", "schema"))}


def normalize_controls(
    parameters: JsonObject, attributes: ModelAttributes | None = None
) -> Translation[Mapping[str, JsonValue]]:
    """Returns the control values in a request; what is no control is left to the request."""
    return Translation(split_controls(parameters, attributes)[0])


def split_controls(
    parameters: JsonObject, attributes: ModelAttributes | None
) -> tuple[dict[str, JsonValue], dict[str, Any]]:
    """Returns the control values, and the parameters without them.

    Args:
        attributes: Of the model: only its controls count, and only values that they take.
            ``None`` takes all for controls that can be.
    """
    controls: dict[str, JsonValue] = {}
    rest: dict[str, Any] = dict(parameters)
    for name, place in PLACES.items():
        value = look_up(rest, place)
        if value is not None and fits_control(name, value, attributes):
            controls[name] = take(rest, place)
    names = {each.name for each in attributes.controls} if attributes else set()
    for name in names - PLACES.keys() - WITHOUT_PLACE:  # those stay as they are
        if rest.get(name) is not None and name in parameters:
            controls[name] = rest.pop(name)
    return controls, rest
