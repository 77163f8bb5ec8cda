"""A whole request to a vendor.

By default the vendor is asked to store nothing: the whole conversation is sent with every request.
Reasoning is returned signed, so that it can be sent, too. To let the vendor store the state, set
``store``, ``previous_response_id`` or ``conversation`` in ``Request.native``. The vendor then puts
the stored items before the canisters of the request, which must only be the new ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import merge, without
from vibe_llms.dialects.invocations import is_closed
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_requests import SHARED
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter
from vibe_llms.dialects.responses.calling.invocations import nativize_schema
from vibe_llms.dialects.responses.namespaces import find_homes
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability, ModelAttributes

SIGNED_REASONING: Final = "reasoning.encrypted_content"

HELD: Final = ("previous_response_id", "conversation")
"""Parameters that let the vendor put stored items before the input."""


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    request, parts, extras = draft.request, draft.parts, draft.extras
    defaults = compose_defaults(draft.attributes, extras)
    native: dict[str, Any] = {"model": draft.attributes.address.name, **defaults, **parts.messages}
    if request.invocation_choice == "auto":
        native |= extras.get("$said", {})  # which is the default
    for part in (parts.controls, parts.invocations, nativize_schema(request.schema)):
        native = merge(native, part)
    native = merge(native, _fit_extras(request, extras))
    _place_format(native, request, extras)
    # In ``store`` and ``include``, null means that a client left the choice to the vendor.
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
    """Return the extras without those that changes of common fields have outdated."""
    fitting = dict(extras)
    if extras.get("$choice") != request.invocation_choice:
        fitting.pop("tool_choice", None)
    if _find_format(extras) is not None:
        fitting["text"] = without(extras["text"], "format")
    return fitting


def _find_format(extras: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the native format of the answer without its schema."""
    text = extras.get("text")
    told = text.get("format") if isinstance(text, Mapping) else None
    return told if isinstance(told, Mapping) else None


def _place_format(native: dict[str, Any], request: Request, extras: Mapping[str, Any]) -> None:
    """Restore the native format of the answer, as far as it fits the schema."""
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
    """Return whether the vendor stores this request, and has stored earlier ones."""
    extras = Ledger(protocol=PROTOCOL).open(request.native, "request")
    store = extras.get("store", compose_defaults(attributes, extras).get("store"))
    is_held = any(extras.get(name) for name in HELD)
    homes = find_homes(request.invocables)
    return {"is_stored": store is not False, "is_held": is_held, "homes": homes}


def compose_defaults(attributes: ModelAttributes, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default parameters: the vendor is asked to store nothing.

    Instead, reasoning is returned signed, so that any later request can include it.

    Args:
        extras: The request's native parameters of this protocol.
    """
    if any(extras.get(name) for name in (*HELD, "background")):
        return {}
    if extras.get("store", False) is not False:
        return {}
    defaults: dict[str, Any] = {"store": False}
    # A model without reasoning rejects the option; one with reasoning hardly needs it.
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
