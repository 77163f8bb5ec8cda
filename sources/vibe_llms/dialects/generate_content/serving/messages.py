"""A client's contents as canisters, for gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.executions import leave_to_its_vendor
from vibe_llms.dialects.extras import (
    NAMELESS,
    collect_extras,
    keep_native,
    make_native,
    without,
    write_json,
)
from vibe_llms.dialects.generate_content.calling.calls import read_call_extras
from vibe_llms.dialects.generate_content.calling.parts import (
    VENDOR_CALLS,
    VENDOR_RESULTS,
    open_part,
    read_content,
    read_opened_part,
    read_vendor_part,
)
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.tables import JSON_TYPE
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.reading import ConversationReader, read_each
from vibe_llms.dialects.serving import refuse_invalid
from vibe_llms.dialects.unanswered import PendingInvocation, WaitingInvocations
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    AnyContent,
    NativeContent,
    TextualContent,
)
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.trusting import make_text

_NAME: Final = "generateContent"


def normalize_messages(
    native: Mapping[str, Any], cache: ClientPrefixes | None = None
) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``systemInstruction`` and ``contents``.

    Lossless: other fields become native data of the content or canister.

    Args:
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: A content is invalid.
    """
    reader = _ContentsReader()
    fields = camelize(native)
    system = fields.get("systemInstruction")
    if system is not None:
        with refuse_invalid("The content at systemInstruction", _NAME, "systemInstruction"):
            reader.read_system(system)
    contents = fields.get("contents") or ()
    reader = read_each(
        reader,
        [contents] if _is_single_content(contents) else contents,
        kind="content",
        field="contents",
        protocol=_NAME,
        context=system,
        cache=cache,
    )
    return reader.finish()


def _is_single_content(contents: object) -> bool:
    return isinstance(contents, (str, Mapping))


_CONTENT_FIELDS: Final = frozenset({"role", "parts"})


def _open_content(content: str | Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the role, the parts and the extras of a content; a text means one part."""
    if isinstance(content, str):
        return "user", [{"text": content}], {}
    fields = camelize(content)
    role = fields.get("role")
    extras = collect_extras(fields, _CONTENT_FIELDS)
    parts = fields.get("parts") or []
    if parts.__class__ is not list:
        parts = [parts] if isinstance(parts, Mapping) else list(parts)
    return role or "user", parts, extras


@define
class _ContentsReader(ConversationReader):
    """Reads contents in order; calls without an id are identified by their order."""

    _unanswered: WaitingInvocations = attrs.field(factory=WaitingInvocations, init=False)

    def read_system(self, content: str | Mapping[str, Any] | Sequence[Any]) -> None:
        """Add the request's instructions."""
        if isinstance(content, Sequence) and not isinstance(content, str):
            parts = [{"text": each} if isinstance(each, str) else each for each in content]
            content = {"parts": parts}
        if isinstance(content, Mapping) and "text" in content:
            content = {"parts": [content]}
        _, parts, extras = _open_content(content)
        native = keep_native(PROTOCOL, {"content": extras} if extras else {})
        self.add_supervisor([read_content(part) for part in parts], native)

    def read(self, content: str | Mapping[str, Any], index: int) -> None:
        """Add the canisters of one content. Raises RequestError."""
        role, parts, extras = _open_content(content)
        if role == "model":
            self._read_turn([open_part(part) for part in parts], extras)
        elif role in ("user", "function", "tool"):
            self._read_input([open_part(part) for part in parts], extras)
        else:
            raise RequestError(path="role", detail=f"Unknown role {role!r}.")

    def _read_turn(self, parts: Sequence[dict[str, Any]], extras: dict[str, Any]) -> None:
        turn_id = produce_identity()
        wrapper = {"content": extras} if extras else {}
        contents: list[AnyContent] = []
        vendor_id = ""
        for part in parts:
            is_call = "functionCall" in part
            if not is_call and part.keys().isdisjoint(_VENDOR_FIELDS):
                contents.append(_read_content_part(part))
                continue
            if contents:
                self.add_answer(contents, turn_id, keep_native(PROTOCOL, wrapper))
                contents, wrapper = [], {}
            if is_call:
                self._read_call(part, turn_id, wrapper)
            else:
                if any(name in part for name in VENDOR_CALLS):
                    vendor_id = produce_identity()  # the next result without an id gets it, too
                read = read_vendor_part({**part, **wrapper}, vendor_id or "call", turn_id)
                self.add_canister(leave_to_its_vendor(read, read.invocation_id))
            wrapper = {}
        if contents or not parts:
            self.add_answer(contents, turn_id, keep_native(PROTOCOL, wrapper))

    def _read_call(self, part: dict[str, Any], turn_id: str, wrapper: dict[str, Any]) -> None:
        call = camelize(part["functionCall"])
        identity = call.get("id") or f"call_{produce_identity()}"
        name = call.get("name") or ""
        self._unanswered.add(PendingInvocation(identity, name))
        extras = {**read_call_extras(part), **wrapper, **({} if call.get("id") else NAMELESS)}
        arguments = write_json(call.get("args") or {})
        self.add_call(identity, name, arguments, turn_id, keep_native(PROTOCOL, extras))

    def _read_input(self, parts: Sequence[dict[str, Any]], extras: dict[str, Any]) -> None:
        contents: list[AnyContent] = []
        previous: str | None = None
        for part in parts:
            if "functionResponse" not in part:
                contents.append(_read_content_part(part))
                continue
            if contents:
                self._add_input(contents, _compose_wrapper("user", previous, extras))
                contents, previous = [], "user"
            self._read_result(part, _compose_wrapper("result", previous, extras))
            previous = "result"
        if contents or not parts:
            self._add_input(contents, _compose_wrapper("user", previous, extras))

    def _add_input(self, contents: Sequence[AnyContent], wrapper: dict[str, Any]) -> None:
        self.add_user(contents, keep_native(PROTOCOL, {"content": wrapper} if wrapper else {}))

    def _read_result(self, part: dict[str, Any], wrapper: dict[str, Any]) -> None:
        block = camelize(part["functionResponse"])
        identity, name = block.get("id"), block.get("name")
        waiting = self._unanswered
        answered = waiting.pop_by_id(identity) if identity else waiting.pop_by_name(name)
        if answered is None and not identity and not name:
            answered = waiting.pop_first()
        if not identity:
            identity = answered.invocation_id if answered else f"call_{produce_identity()}"
        self.add_result(**_read_result(part, identity, wrapper))


def _compose_wrapper(role: str, previous: str | None, extras: dict[str, Any]) -> dict[str, Any]:
    """Return the note of a canister about the content around it.

    Args:
        role: ``user`` or ``result``.
        previous: The role of the canister before it in the same content; ``None`` for the first.
        extras: The extras of the content, which its first canister keeps.
    """
    if previous is None:
        # Otherwise a result that begins a content would join the results before it.
        return extras | ({"joined": False} if role == "result" else {})
    # Adjacent results are joined by default; other results need a note that they were joined.
    are_both_results = previous == role == "result"
    return {} if are_both_results else {"joined": True}


_VENDOR_FIELDS: Final = frozenset({*VENDOR_CALLS, *VENDOR_RESULTS})
_CALL_FIELDS: Final = _VENDOR_FIELDS | {"functionCall", "functionResponse"}


def _read_content_part(part: dict[str, Any]) -> AnyContent:
    """Return the content of a part; calls and results of the other role are kept as native data."""
    if part.keys().isdisjoint(_CALL_FIELDS):
        return read_opened_part(part)
    kinds = ("functionCall", "functionResponse", *VENDOR_CALLS, *VENDOR_RESULTS)
    kind = next(name for name in kinds if name in part)
    return NativeContent(kind=kind, native=make_native(PROTOCOL, part))


def _read_result(
    part: Mapping[str, Any], invocation_id: str, content: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields of the result in a part with ``functionResponse``.

    Args:
        invocation_id: Used if the part has none.
        content: Native data of the message around it.
    """
    block = camelize(part["functionResponse"])
    response = block.get("response")
    response_extras = collect_extras(block, _RESPONSE_FIELDS)
    is_plain = response.__class__ is dict and response.keys() == _OUTPUT_FIELDS
    is_error = not is_plain and _is_error_response(response)
    extras = without(part, "functionResponse")
    if response_extras:
        extras["functionResponse"] = response_extras
    if content:
        extras["content"] = dict(content)
    media = [read_content(each) for each in block.get("parts") or ()]
    return {
        "content": [*_read_response(response), *media],
        "invocation_id": block.get("id") or invocation_id,
        "name": block.get("name"),
        "is_error": is_error,
        "native": keep_native(PROTOCOL, extras),
    }


_RESPONSE_FIELDS: Final = frozenset({"id", "name", "response", "parts"})
_OUTPUT_FIELDS: Final = frozenset({"output"})


def _is_error_response(response: object) -> bool:
    return isinstance(response, Mapping) and "error" in response and "output" not in response


def _read_response(response: object) -> list[AnyContent]:
    match response:
        case None:
            return []
        case {"output": str(text), **rest} | {"error": str(text), **rest} if not rest:
            return [make_text(text)]
        case _:
            return [TextualContent(write_json(response), mime_type=JSON_TYPE)]
