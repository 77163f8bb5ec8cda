"""A whole request to a vendor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.chat_completions.calling.caching import complete_cache
from vibe_llms.dialects.chat_completions.calling.invocations import (
    nativize_schema,
)
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.dialects.extras import merge, without, write_json
from vibe_llms.dialects.instructions import accepts_late_instructions, join_instructions
from vibe_llms.dialects.invocations import is_closed
from vibe_llms.dialects.openai_requests import SHARED
from vibe_llms.dialects.request_writing import BodyDraft, RequestWriter
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.requests import Request


def _compose_body(draft: BodyDraft) -> dict[str, Any]:
    request, parts, extras = draft.request, draft.parts, draft.extras
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
    _restore_choice(body, extras, request)
    if _is_unenforced(request.schema, extras, quirks):
        reason = "the vendor enforces only closed schemas whose properties are all required"
        draft.ledger.coerce("schema", reason)
    _restore_format(body, extras, request, quirks)
    if schema.losses and request.schema is not None:
        draft.ledger.losses += schema.losses
        _describe_schema(
            body,
            request.schema,
            has_one_system_message=not accepts_late_instructions(draft.attributes),
        )
    body = _complete(body, extras, quirks, streaming=draft.streaming)
    complete_cache(body, draft)
    return body


def _complete(
    body: dict[str, Any], extras: dict[str, Any], quirks: Quirks, *, streaming: bool
) -> dict[str, Any]:
    """Add native data, and the parameters of streaming."""
    options = extras.pop("$stream_options", None) or extras.get("stream_options") or {}
    explicit_defaults = extras.pop("$said", {})
    body = merge({**explicit_defaults, **body}, without(extras, "stream", "stream_options"))
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


def _restore_choice(body: dict[str, Any], extras: dict[str, Any], request: Request) -> None:
    """Restore the choice as the client wrote it, if its meaning has not changed."""
    choice = extras.pop("$choice", None)
    if choice is not None and choice["meant"] == request.invocation_choice:
        body["tool_choice"] = choice["said"]


def _restore_format(
    body: dict[str, Any], extras: dict[str, Any], request: Request, quirks: Quirks
) -> None:
    """Restore the client's form of the answer's format, if the schema is still of that kind."""
    schema_format = extras.pop("$wanted", None)
    has_other_format = "response_format" in extras
    other_format = extras.pop("response_format", None)
    takes_schemas = quirks.schema_form == "json_schema"
    if schema_format is not None and request.schema is not None and takes_schemas:
        inner = {**schema_format["json_schema"], "schema": request.schema}
        body["response_format"] = {**schema_format, "json_schema": inner}
    elif has_other_format and request.schema in (None, {"type": "object"}):
        body["response_format"] = other_format


def _is_unenforced(schema: JsonObject | None, extras: Mapping[str, Any], quirks: Quirks) -> bool:
    """Return whether a schema is sent without strict enforcement, which the vendor supports."""
    is_strict = quirks.takes_strict and quirks.schema_form == "json_schema"
    is_plain = schema is None or schema == {"type": "object"}
    return is_strict and not is_plain and "$wanted" not in extras and not is_closed(schema)


def _describe_schema(
    body: dict[str, Any], schema: JsonObject, *, has_one_system_message: bool
) -> None:
    """Describe the schema to the model in a system message: the vendor enforces only JSON.

    Args:
        has_one_system_message: Whether the model accepts only one system message.
    """
    text = write_json(schema)
    prompt = f"Answer in JSON that conforms to this JSON schema, and with nothing else:\n{text}"
    instructions, messages = {"role": "system", "content": prompt}, body["messages"]
    if has_one_system_message and messages and messages[0]["role"] == "system":
        instructions = join_instructions([instructions, messages[0]])
        messages = messages[1:]
    body["messages"] = [instructions, *messages]


_WRITER: Final = RequestWriter(
    protocol=PROTOCOL, compose_body=_compose_body, shared=SHARED, takes_cache=True
)
nativize_request = _WRITER.nativize_request
produce_processors = _WRITER.produce_processors
