"""Body of a request.

By default the vendor is asked to store nothing: the whole conversation is sent with every request.
To let the vendor store the state, set ``store`` or ``previous_interaction_id`` in
``Request.native``; the canisters of the request must then only be the new ones. An interaction in
the background is stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.broken_requests import explain_missing_message
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.interactions.calling.invocations import nativize_schema
from vibe_llms.dialects.interactions.quirks import PROTOCOL
from vibe_llms.dialects.invocations import allows_any_object
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    parts, request = draft.parts, draft.request
    if request.schema is not None and allows_any_object(request.schema):
        draft.ledger.coerce(
            "schema", "the vendor is asked for any JSON, as the schema allows any object"
        )
    extras = _remove_outdated_extras(request.invocation_choice, draft.extras)
    body: dict[str, Any] = {"model": draft.attributes.address.name, **parts.messages}
    if not (request.controls.get("background") or _lets_store(extras)):
        body["store"] = False
    for part in (parts.controls, parts.invocations, nativize_schema(request.schema), extras):
        body = merge(body, part)
    body = {name: value for name, value in body.items() if value is not None}
    if not body.get("input"):
        raise explain_missing_message("canisters")
    body.pop("stream", None)
    return body | ({"stream": True} if draft.streaming else {})


def _lets_store(extras: Mapping[str, Any]) -> bool:
    """Return whether a client's parameters require that the vendor stores the interaction."""
    return any(extras.get(name) for name in ("background", "previous_interaction_id", "store"))


def _remove_outdated_extras(choice: str, extras: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extras without a client's tool choice, if the common choice was changed since."""
    current = dict(extras)
    config = current.get("generation_config")
    if isinstance(config, Mapping) and "tool_choice" in config and choice != "auto":
        remaining = {name: value for name, value in config.items() if name != "tool_choice"}
        current["generation_config"] = remaining
    return current


_WRITER: Final = RequestWriter(protocol=PROTOCOL, compose_body=_compose_body)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
