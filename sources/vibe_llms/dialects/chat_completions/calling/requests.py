"""A whole request to a vendor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.chat_completions.calling.invocations import (
    nativize_schema,
)
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import merge, without, write_json
from vibe_llms.dialects.instructions import join_instructions, takes_late
from vibe_llms.dialects.invocations import is_closed
from vibe_llms.dialects.openai_requests import SHARED
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.requests import Request


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    request, parts, kept = draft.request, draft.parts, draft.extras
    quirks: Quirks = draft.quirks
    schema = nativize_schema(request.schema, quirks)
    body: dict[str, Any] = {
        "model": draft.attributes.address.name or request.model,
        **parts.messages,
        **parts.controls,
        **parts.invocations,
        **schema.value,
    }
    _drop_parallel(body, draft)
    _restore_choice(body, kept, request)
    if _is_wish(request.schema, kept, quirks):
        reason = "the vendor enforces only closed schemas whose properties are all required"
        draft.ledger.coerce("schema", reason)
    _restore_format(body, kept, request, quirks)
    if schema.losses and request.schema is not None:
        draft.ledger.losses += schema.losses
        _tell_schema(body, request.schema, is_alone=not takes_late(draft.attributes))
    return _complete(body, kept, quirks, streaming=draft.streaming)


def _complete(
    body: dict[str, Any], kept: dict[str, Any], quirks: Quirks, *, streaming: bool
) -> dict[str, Any]:
    """Add native data, and the parameters of streaming."""
    options = kept.pop("$stream_options", None) or kept.get("stream_options") or {}
    said = kept.pop("$said", {})  # which is the default
    body = merge({**said, **body}, without(kept, "stream", "stream_options"))
    if streaming:
        body["stream"] = True
    if streaming and quirks.stream_options:
        # Otherwise a stream has no usage.
        body["stream_options"] = {**options, "include_usage": True}
    return body


def _drop_parallel(body: dict[str, Any], draft: BodyDraft) -> None:
    """Remove parallel_tool_calls if no tools are left: OpenAI rejects it with status 400."""
    control = "parallel_invocations"
    field = draft.quirks.fields.get(control, control)
    if field in body and "tools" not in body and draft.request.invocables:
        del body[field]
        draft.ledger.drop(f"controls.{control}", "the request has no invocables")


def _restore_choice(body: dict[str, Any], kept: dict[str, Any], request: Request) -> None:
    """Restore the client's form of the choice, if it still means the same."""
    choice = kept.pop("$choice", None)
    if choice is not None and choice["meant"] == request.invocation_choice:
        body["tool_choice"] = choice["said"]


def _restore_format(
    body: dict[str, Any], kept: dict[str, Any], request: Request, quirks: Quirks
) -> None:
    """Restore the client's name of the format, if the schema is still of that kind."""
    named = kept.pop("$wanted", None)
    other = {"response_format": kept.pop("response_format")} if "response_format" in kept else {}
    if named is not None and request.schema is not None and quirks.schema_form == "json_schema":
        inner = {**named["json_schema"], "schema": request.schema}
        body["response_format"] = {**named, "json_schema": inner}
    elif request.schema in (None, {"type": "object"}):
        body |= other


def _is_wish(schema: JsonObject | None, kept: Mapping[str, Any], quirks: Quirks) -> bool:
    """Return whether a vendor may treat a schema as a mere wish."""
    is_strict = quirks.takes_strict and quirks.schema_form == "json_schema"
    is_plain = schema is None or schema == {"type": "object"}
    return is_strict and not is_plain and "$wanted" not in kept and not is_closed(schema)


def _tell_schema(body: dict[str, Any], schema: JsonObject, *, is_alone: bool) -> None:
    """Describe the schema to a model in words: its vendor enforces only JSON.

    Args:
        is_alone: Whether the model accepts only one system message.
    """
    text = write_json(schema)
    words = f"Answer in JSON that conforms to this JSON schema, and with nothing else:\n{text}"
    told, messages = [{"role": "system", "content": words}], body["messages"]
    if is_alone and messages and messages[0]["role"] == "system":
        told, messages = [join_instructions([*told, messages[0]])], messages[1:]
    body["messages"] = [*told, *messages]


_WRITER: Final = RequestWriter(protocol=PROTOCOL, compose_body=_compose_body, shared=SHARED)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
