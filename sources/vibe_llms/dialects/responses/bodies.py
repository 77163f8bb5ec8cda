"""A whole request in the vendor's words.

By default the vendor is asked to store nothing: our conversation is the whole of it, and goes
with every request. Reasoning then comes back sealed, so that it can go too. Whoever wants the
vendor to hold the state says so in ``Request.native``: ``store``, ``previous_response_id`` or
``conversation``. The vendor then puts what it holds before the canisters of the request, so that
these are to be only what is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.processors import Processors, nativize_parts
from vibe_llms.dialects.responses.invocations import nativize_schema
from vibe_llms.dialects.responses.processors import HELD, compose_defaults, produce_processors
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.responses.residue import merge, read_mark
from vibe_llms.dialects.schemas import is_closed
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.plain import JsonObject


def nativize_request(
    request: Request,
    attributes: ModelAttributes,
    quirks: Quirks,
    *,
    provider: str = "",
    streaming: bool = False,
    processors: Processors | None = None,
) -> Translation[JsonObject]:
    """Returns the body of a request.

    Args:
        provider: Whose request it is: what another one has sealed does not go.
        streaming: Whether the answer is to come bit by bit.
        processors: Write the parts; by default those of the dialect.

    Raises:
        CapabilityError: The model is known not to take what a canister holds.
        ControlError: The model has no such control, or the value is outside its domain.
        RequestError: The bytes of a medium are not there.
    """
    ledger = Ledger(protocol=PROTOCOL, provider=provider)
    residue = ledger.open(request.native, "request")
    defaults = compose_defaults(attributes, quirks, residue)
    model = ModelDescriptor(provider=provider, name=attributes.address.name, attributes=attributes)
    parts = nativize_parts(request, model, processors or produce_processors(quirks))
    native: dict[str, Any] = {"model": attributes.address.name, **defaults, **parts.messages}
    for part in (parts.controls, parts.invocations, nativize_schema(request.schema)):
        native = merge(native, part)
    native = merge(native, _fit_residue(request, residue))
    if read_mark(residue, "string"):
        native["input"] = _shorten(native["input"])
    if not native["input"] and isinstance(native["input"], list) and _is_held(native):
        del native["input"]
    if streaming:
        native["stream"] = True
    elif native.pop("stream_options", None):
        ledger.drop("request.native", "stream_options: the answer is not to come bit by bit")
    losses = (*ledger.losses, *parts.losses, *_survey_losses(request, residue))
    return Translation(native, losses)


def _fit_residue(request: Request, residue: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the residue without what a change of the common words has overtaken."""
    fitting = {name: value for name, value in residue.items() if name != "$"}
    if "tool_choice" in fitting and read_mark(residue, "choice") != request.invocation_choice:
        del fitting["tool_choice"]
    text = fitting.get("text")
    if isinstance(text, Mapping) and isinstance(text.get("format"), Mapping):
        told = _fit_format(request.schema, text["format"])
        fitting["text"] = {name: value for name, value in text.items() if name != "format"}
        if told:
            fitting["text"]["format"] = told
    return fitting


def _fit_format(schema: JsonObject | None, told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what was said of the form of the answer, as far as it fits to the schema."""
    kind = told.get("type")
    if kind == "json_object" and schema == {"type": "object"}:
        return {**told, "$": {"absent": ["name", "schema", "strict"]}}
    fits = (schema is None) == (kind is not None) and kind != "json_object"
    return dict(told) if fits else {}


def _shorten(items: Any) -> Any:
    """Returns the input as a text where it was one, and still says no more than that."""
    match items:
        case [{"role": "user", "content": str(text), **rest}] if not rest:
            return text
    return items


def _is_held(native: Mapping[str, Any]) -> bool:
    return any(native.get(name) for name in (*HELD, "prompt"))


def _survey_losses(request: Request, residue: Mapping[str, Any]) -> list[Loss]:
    text = residue.get("text")
    told = text.get("format") if isinstance(text, Mapping) else None
    if request.schema is None or told is not None or is_closed(request.schema):
        return []
    reason = "the vendor enforces only closed schemas whose properties are all required"
    return [Loss(kind=LossKind.COERCED, path="schema", reason=reason)]
