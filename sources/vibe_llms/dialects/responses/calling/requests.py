"""A whole request to a vendor.

By default the vendor is asked to store nothing: the whole conversation is sent with every request.
Reasoning is returned signed, so that it can be sent, too. To let the vendor store the state, set
``store``, ``previous_response_id`` or ``conversation`` in ``Request.native``. The vendor then puts
the stored items before the canisters of the request, which must only be the new ones. A response in
the background is stored until it has been received.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.extras import join_fields, merge, without
from vibe_llms.dialects.invocations import is_closed
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_caching import complete_openai_cache
from vibe_llms.dialects.openai_requests import SHARED
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter
from vibe_llms.dialects.responses.calling.invocations import nativize_schema
from vibe_llms.dialects.responses.namespaces import find_qualified_names
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import Capability, ModelAttributes

SIGNED_REASONING: Final = "reasoning.encrypted_content"
"""Option that lets the vendor return reasoning with its signature."""

STORED_CONVERSATION_FIELDS: Final = ("previous_response_id", "conversation")
"""Parameters that let the vendor put stored items before the input."""


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    request, parts, extras = draft.request, draft.parts, draft.extras
    defaults = compose_defaults(draft.attributes, extras)
    if request.controls.get("background"):
        defaults.pop("store", None)  # the vendor has to store what it answers in the background
    native: dict[str, Any] = {"model": draft.attributes.address.name, **defaults, **parts.messages}
    if request.invocation_choice == "auto":
        native |= extras.get("$said", {})  # the default that the client sent
    invocations: Mapping[str, Any] = parts.invocations
    if "include" in invocations:  # results of server tools
        invocations = join_fields({"include": native.get("include", [])}, invocations)
    for part in (parts.controls, invocations, nativize_schema(request.schema)):
        native = merge(native, part)
    native = merge(native, _remove_outdated_extras(request, extras))
    _restore_format(native, request, extras)
    # If a client omits ``store`` or ``include``, the vendor decides; then the value is null.
    native = {name: value for name, value in native.items() if value is not None}
    if not native["input"] and _continues_stored(native):
        del native["input"]
    native.pop("stream_options", None)
    if draft.streaming and not _waits_for_capacity(native):
        options = extras.get("$stream_options") or extras.get("stream_options")
        native |= {"stream": True, **({"stream_options": options} if options else {})}
    if (
        request.schema is not None
        and _find_native_format(extras) is None
        and not is_closed(request.schema)
    ):
        reason = "the vendor enforces only closed schemas whose properties are all required"
        draft.ledger.coerce("schema", reason)
    complete_openai_cache(native, request, draft.attributes, draft.ledger, most="12h")
    return native


def _remove_outdated_extras(request: Request, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extras without those that are outdated, as common fields were changed later."""
    current = dict(extras)
    if extras.get("$choice") != request.invocation_choice:
        current.pop("tool_choice", None)
    if _find_native_format(extras) is not None:
        current["text"] = without(extras["text"], "format")
    return current


def _find_native_format(extras: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the native format of the answer without its schema."""
    text = extras.get("text")
    native_format = text.get("format") if isinstance(text, Mapping) else None
    return native_format if isinstance(native_format, Mapping) else None


def _restore_format(native: dict[str, Any], request: Request, extras: Mapping[str, Any]) -> None:
    """Restore the native format of the answer, unless the schema of the request was changed."""
    native_format = _find_native_format(extras)
    if native_format is None:
        return
    kind, our_format = native_format.get("type"), native["text"].get("format", {})
    original_schema = {"type": "object"} if kind == "json_object" else None
    if kind is None and request.schema is not None:
        native["text"]["format"] = merge(our_format, native_format)
    elif kind is not None and request.schema == original_schema:
        native["text"]["format"] = native_format


def _waits_for_capacity(native: Mapping[str, Any]) -> bool:
    """Return whether the vendor may answer hours later, for which it cannot stream."""
    options = native.get("background_options")
    window = options.get("completion_window") if isinstance(options, Mapping) else None
    return window not in (None, "soonest")


def _continues_stored(native: Mapping[str, Any]) -> bool:
    return any(native.get(name) for name in (*STORED_CONVERSATION_FIELDS, "prompt"))


def _survey_stored_state(
    request: Request, attributes: ModelAttributes, quirks: Quirks
) -> dict[str, Any]:
    """Return the arguments of ``nativize_canisters`` about stored items and namespaces."""
    extras = Ledger(protocol=PROTOCOL).read_sendable(request.native, "request")
    store = extras.get("store", compose_defaults(attributes, extras).get("store"))
    continues_stored = any(extras.get(name) for name in STORED_CONVERSATION_FIELDS)
    qualified_names = find_qualified_names(request.invocables)
    return {
        "is_stored": store is not False,
        "continues_stored": continues_stored,
        "qualified_names": qualified_names,
    }


def compose_defaults(attributes: ModelAttributes, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default parameters: the vendor is asked to store nothing.

    Instead, reasoning is returned signed, so that any later request can include it.

    Args:
        extras: The request's native parameters of this protocol.
    """
    if any(extras.get(name) for name in (*STORED_CONVERSATION_FIELDS, "background")):
        return {}
    if extras.get("store", False) is not False:
        return {}
    defaults: dict[str, Any] = {"store": False}
    # A model without reasoning rejects the option, so it is sent only if reasoning is known.
    if attributes.access_capability("supports_reasoning") is Capability.YES:
        defaults["include"] = [SIGNED_REASONING]
    return defaults


_WRITER: Final = RequestWriter(
    protocol=PROTOCOL,
    compose_body=_compose_body,
    find_message_options=_survey_stored_state,
    shared=SHARED,
    takes_cache=True,
)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
