"""Check whether a client's request can be passed through to a vendor, by its known quirks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.chat_completions.quirks import OPENAI_FIELDS, PROTOCOL, Quirks
from vibe_llms.dialects.chat_completions.serving.requests import list_fields, normalize_request
from vibe_llms.dialects.chat_completions.tables import (
    REASONING_DETAILS,
    REASONING_FIELDS,
    SPELLINGS,
)
from vibe_llms.dialects.extras import keep_native, read_native
from vibe_llms.dialects.invocations import holds_object
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes

_ANY: Final = ".+"


def touches_quirks(body: bytes, quirks: Quirks) -> bool:
    """Return whether the vendor would reject or misread a request in OpenAI's form.

    Only known quirks count: for a vendor with OpenAI's quirks the request is passed through.
    """
    marks = quirks.marks
    if marks is not None and not _has_mark(body, marks):
        return False
    try:
        native = msgspec.json.decode(body, type=dict[str, Any])
        return (
            _touches_fields(native, quirks)
            or any(_touches_tool(tool, quirks) for tool in _list(native.get("tools")))
            or any(_touches_message(message, quirks) for message in _list(native.get("messages")))
            or _touches_order(_list(native.get("messages")), quirks)
        )
    except (AttributeError, TypeError, *UNREADABLE):
        return False  # the vendor's own error is more precise


def _has_mark(body: bytes, marks: Iterable[str]) -> bool:
    text = body.decode("latin-1")  # to search bytes takes ten times as long
    # Not `any`: the usual request has no mark, and a generator would take twice as long.
    for mark in marks:  # noqa: SIM110
        if mark in text:
            return True
    return False


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _touches_fields(native: Mapping[str, Any], quirks: Quirks) -> bool:
    """Return whether a field of the request is spelled for another vendor, or not supported."""
    if any(native.get(field) is not None for field in quirks.refused_fields):
        return True
    for control, spellings in SPELLINGS.items():
        field = next((each for each in spellings if native.get(each) is not None), None)
        if field is not None and not _is_in_vendor_field(control, field, quirks):
            return True
    stops, response_format = native.get("stop"), native.get("response_format")
    limit, openai_limit = quirks.maximum_stops, Quirks().maximum_stops
    return (
        (isinstance(response_format, Mapping) and _touches_format(response_format, quirks))
        or (
            limit not in (None, openai_limit)
            and isinstance(stops, list)
            and len(stops) > (limit or 0)
        )
        or (not quirks.stream_options and native.get("stream_options") is not None)
        or (quirks.required_word != "required" and native.get("tool_choice") == "required")
        or (
            quirks.switches_thinking
            and native.get("reasoning_effort") is not None
            and native.get("thinking") is None
        )
    )


def _touches_format(response_format: Mapping[str, Any], quirks: Quirks) -> bool:
    if response_format.get("type") != "json_schema":
        return False
    is_strict = bool((response_format.get("json_schema") or {}).get("strict"))
    return quirks.schema_form == "json_object" or (is_strict and not quirks.takes_strict)


def _is_in_vendor_field(control: str, field: str, quirks: Quirks) -> bool:
    """Return whether the vendor reads a control from the field in which the client sent it."""
    vendor_field = quirks.fields.get(control)
    if vendor_field is None:  # only Mistral has another name for the seed
        return control != "seed" or field == control
    if vendor_field == OPENAI_FIELDS.get(control) and field == control:
        return True  # OpenAI's older models accept it, and so do most other servers
    return field == vendor_field or "." in vendor_field


def _touches_tool(tool: Mapping[str, Any], quirks: Quirks) -> bool:
    if not quirks.takes_tools or (tool.get("type") == "custom" and not quirks.takes_custom):
        return True
    function = tool.get("function") or tool.get("custom") or {}
    if function.get("strict") and not quirks.takes_strict:
        return True
    is_default = quirks.name_pattern == Quirks().name_pattern
    return not is_default and re.fullmatch(quirks.name_pattern, function.get("name", "")) is None


def _touches_message(message: Mapping[str, Any], quirks: Quirks) -> bool:
    role, content = message.get("role"), message.get("content")
    parts = _list(content)
    files = (part.get("type") == "file" for part in parts if isinstance(part, Mapping))
    return (
        (role == "developer" and role not in quirks.supervisor_roles)
        or (bool(parts) and not quirks.takes_parts)
        or ("file" not in quirks.media and quirks.file_part is not None and any(files))
        or any(not _fits_id(each, quirks) for each in _list_ids(message))
        or (role == "tool" and quirks.names_results and not message.get("name"))
        or (role == "assistant" and _touches_turn(message, quirks))
    )


def _fits_id(identity: object, quirks: Quirks) -> bool:
    if quirks.id_pattern == _ANY:
        return True
    return isinstance(identity, str) and re.fullmatch(quirks.id_pattern, identity) is not None


def _list_ids(message: Mapping[str, Any]) -> Iterator[object]:
    for call in _list(message.get("tool_calls")):
        yield call.get("id")
    if message.get("role") == "tool":
        yield message.get("tool_call_id")


def _touches_turn(message: Mapping[str, Any], quirks: Quirks) -> bool:
    """Return whether the vendor would misread a turn of the model."""
    calls, reasoning_field = _list(message.get("tool_calls")), quirks.reasoning_field
    if any(call.get("type") == "custom" for call in calls) and not quirks.takes_custom:
        return True
    if not quirks.takes_broken and not all(map(_holds_object, calls)):
        return True
    filled = [name for name in REASONING_FIELDS if message.get(name)]
    is_reasoning_misplaced = (
        reasoning_field is not None
        and bool(filled)
        and reasoning_field not in filled
        and REASONING_DETAILS not in message
    )
    return (
        (message.get("content") is None and bool(calls) and not quirks.takes_null)
        or (not message.get("content") and _is_answer(message) and not quirks.takes_null)
        or (bool(message.get("refusal")) and not quirks.takes_refusals)
        or (bool(calls) and quirks.needs_reasoning and reasoning_field not in message)
        or is_reasoning_misplaced
    )


def _holds_object(call: Mapping[str, Any]) -> bool:
    function = call.get("function")
    return not isinstance(function, Mapping) or holds_object(str(function.get("arguments")))


def _is_answer(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" and not message.get("tool_calls")


def _touches_order(messages: list[Any], quirks: Quirks) -> bool:
    """Return whether the vendor would reject the order of the messages."""
    if not (quirks.alternates or quirks.bridges_results):
        return False
    previous = "system"
    for role in (str(message.get("role")) for message in messages):
        if quirks.bridges_results and (previous, role) == ("tool", "user"):
            return True
        is_first = previous == "system" and role == "assistant"
        if quirks.alternates and (is_first or previous == role != "tool"):
            return True
        previous = role
    return False


def normalize_same(
    native: Mapping[str, Any], attributes: ModelAttributes, cache: ClientPrefixes | None = None
) -> Translation[Request]:
    """Return a request for another vendor of the protocol.

    An unknown control of the model stays in its field, because the vendor may know the control.
    """
    read = normalize_request(native, cache=cache)
    request = read.value
    unknown = {
        name: value
        for name, value in request.controls.items()
        if attributes.access_control(name) is None
    }
    if not unknown:
        return read
    extras = {} if request.native is None else read_native(request.native, "request")
    extras |= {field: native[field] for field in list_fields(native, unknown)}
    controls = {name: value for name, value in request.controls.items() if name not in unknown}
    merged_request = evolve_unchecked(
        request, controls=controls, native=keep_native(PROTOCOL, extras)
    )
    return Translation(merged_request, read.losses)
