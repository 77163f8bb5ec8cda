"""A whole request in the vendor's words.

By default the vendor is asked to store nothing: our conversation is the whole of it, and goes
with every request. Reasoning then comes back signed, so that it can go too. Whoever wants the
vendor to hold the state says so in ``Request.native``: ``store``, ``previous_response_id`` or
``conversation``. The vendor then puts what it holds before the canisters of the request, so that
these are to be only what is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import merge, without
from vibe_llms.dialects.invocations import is_closed
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_requests import SHARED
from vibe_llms.dialects.responses.calling.invocations import nativize_schema
from vibe_llms.dialects.responses.namespaces import find_homes
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.writing import BodyDraft, RequestWriter
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability, ModelAttributes

SIGNED_REASONING: Final = "reasoning.encrypted_content"

HELD: Final = ("previous_response_id", "conversation")
"""What lets the vendor put what it holds before the input."""


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    request, parts, extras = draft.request, draft.parts, draft.extras
    defaults = compose_defaults(draft.attributes, extras)
    native: dict[str, Any] = {"model": draft.attributes.address.name, **defaults, **parts.messages}
    if request.invocation_choice == "auto":
        native |= extras.get("$said", {})  # which is as if it were not said
    for part in (parts.controls, parts.invocations, nativize_schema(request.schema)):
        native = merge(native, part)
    native = merge(native, _fit_extras(request, extras))
    _place_format(native, request, extras)
    # Null says of the store, and of what is included, that a client has left it to the vendor.
    native = {name: value for name, value in native.items() if value is not None}
    if not native["input"] and _is_held(native):
        del native["input"]
    native.pop("stream_options", None)
    if draft.streaming:
        options = extras.get("$stream_options") or extras.get("stream_options")
        native |= {"stream": True, **({"stream_options": options} if options else {})}
    if (
        request.schema is not None
        and _find_format(extras) is None
        and not is_closed(request.schema)
    ):
        reason = "the vendor enforces only closed schemas whose properties are all required"
        draft.ledger.coerce("schema", reason)
    return native


def _fit_extras(request: Request, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the extras without what a change of the common words has overtaken."""
    fitting = dict(extras)
    if extras.get("$choice") != request.invocation_choice:
        fitting.pop("tool_choice", None)
    if _find_format(extras) is not None:
        fitting["text"] = without(extras["text"], "format")
    return fitting


def _find_format(extras: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns what was said of the form of the answer, beyond its schema."""
    text = extras.get("text")
    told = text.get("format") if isinstance(text, Mapping) else None
    return told if isinstance(told, Mapping) else None


def _place_format(native: dict[str, Any], request: Request, extras: Mapping[str, Any]) -> None:
    """Says of the form of the answer what else was said of it, as far as that fits the schema."""
    told = _find_format(extras)
    if told is None:
        return
    kind, ours = told.get("type"), native["text"].get("format", {})
    if kind is None and request.schema is not None:
        native["text"]["format"] = merge(ours, told)
    elif kind is not None and request.schema == (
        {"type": "object"} if kind == "json_object" else None
    ):
        native["text"]["format"] = told


def _is_held(native: Mapping[str, Any]) -> bool:
    return any(native.get(name) for name in (*HELD, "prompt"))


def _survey_state(request: Request, attributes: ModelAttributes, quirks: Quirks) -> dict[str, Any]:
    """Returns what the vendor stores of this request, and holds of earlier ones."""
    extras = Ledger(protocol=PROTOCOL).open(request.native, "request")
    store = extras.get("store", compose_defaults(attributes, extras).get("store"))
    is_held = any(extras.get(name) for name in HELD)
    homes = find_homes(request.invocables)
    return {"is_stored": store is not False, "is_held": is_held, "homes": homes}


def compose_defaults(attributes: ModelAttributes, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is asked for unless the request says otherwise: that nothing be stored.

    Reasoning is handed out signed instead, so that any later request can hold it.

    Args:
        extras: What the request says in the words of this protocol.
    """
    if any(extras.get(name) for name in (*HELD, "background")):
        return {}
    if extras.get("store", False) is not False:
        return {}
    defaults: dict[str, Any] = {"store": False}
    # A model that does not reason refuses to sign; one that does hardly needs to be asked.
    if attributes.access_capability("supports_reasoning") is Capability.YES:
        defaults["include"] = [SIGNED_REASONING]
    return defaults


_WRITER: Final = RequestWriter(
    protocol=PROTOCOL,
    compose_body=_compose_body,
    survey_circumstances=_survey_state,
    shared=SHARED,
)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
