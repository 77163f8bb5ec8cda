"""A client's contents as canisters, for gateways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from vibe_llms.dialects.extras import NAMELESS, keep_native, leave, make_native, without, write_json
from vibe_llms.dialects.generate_content.calling.calls import read_call_extras
from vibe_llms.dialects.generate_content.calling.parts import (
    VENDOR_CALLS,
    VENDOR_RESULTS,
    open_part,
    read_content,
    read_vendor_part,
)
from vibe_llms.dialects.generate_content.fields import camelize
from vibe_llms.dialects.generate_content.quirks import PROTOCOL
from vibe_llms.dialects.generate_content.tables import JSON_TYPE
from vibe_llms.dialects.serving import refuse_nonsense
from vibe_llms.dialects.unanswered import Unanswered, WaitingInvocations
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    AnyContent,
    NativeContent,
    TextualContent,
)
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Translation


def normalize_messages(native: Mapping[str, Any]) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``systemInstruction`` and ``contents``.

    Lossless: other fields become native data of the content or canister.

    Raises:
        RequestError: A content is invalid.
    """
    reader = _ContentsReader()
    fields = camelize(native)
    canisters: list[AnyCanister] = []
    system = fields.get("systemInstruction")
    if system is not None:
        with refuse_nonsense(
            "The content at systemInstruction", "generateContent", "systemInstruction"
        ):
            canisters.append(_read_system(system))
    contents = fields.get("contents") or ()
    for index, content in enumerate([contents] if _is_single(contents) else contents):
        path = f"contents[{index}]"
        with refuse_nonsense(f"The content at {path}", "generateContent", path):
            canisters += reader.read(content)
    return Translation(tuple(canisters))


def _is_single(contents: object) -> bool:
    return isinstance(contents, (str, Mapping))


def _open_content(content: str | Mapping[str, Any]) -> tuple[str, list[Any], dict[str, Any]]:
    """Return the role, the parts and the extras of a content; a text means one part."""
    if isinstance(content, str):
        return "user", [{"text": content}], {}
    fields = camelize(content)
    role = fields.get("role")
    extras = leave(fields, ("role", "parts"))
    parts = fields.get("parts") or []
    return role or "user", [parts] if isinstance(parts, Mapping) else list(parts), extras


def _read_system(content: str | Mapping[str, Any] | Sequence[Any]) -> SupervisorCanister:
    if isinstance(content, Sequence) and not isinstance(content, str):
        content = {"parts": [{"text": each} if isinstance(each, str) else each for each in content]}
    if isinstance(content, Mapping) and "text" in content:
        content = {"parts": [content]}
    _, parts, extras = _open_content(content)
    native = keep_native(PROTOCOL, {"content": extras} if extras else {})
    return SupervisorCanister([read_content(part) for part in parts], native=native)


@define
class _ContentsReader:
    """Reads contents in order; calls without an id are identified by their order."""

    _unanswered: WaitingInvocations = attrs.field(factory=WaitingInvocations, init=False)

    def read(self, content: str | Mapping[str, Any]) -> Iterator[AnyCanister]:
        role, parts, extras = _open_content(content)
        if role == "model":
            yield from self._read_turn([open_part(part) for part in parts], extras)
        elif role in ("user", "function", "tool"):
            yield from self._read_input([open_part(part) for part in parts], extras)
        else:
            raise RequestError(path="role", detail=f"There is no role {role!r}.")

    def _read_turn(
        self, parts: Sequence[dict[str, Any]], extras: dict[str, Any]
    ) -> Iterator[AnyCanister]:
        turn_id = produce_identity()
        wrapper = {"content": extras} if extras else {}
        contents: list[AnyContent] = []
        vendor_id = ""

        def end_canister() -> Iterator[AnyCanister]:
            nonlocal wrapper
            if contents:
                native = keep_native(PROTOCOL, wrapper)
                yield AssistantCanister(tuple(contents), turn_id=turn_id, native=native)
                contents.clear()
                wrapper = {}

        for part in parts:
            if "functionCall" in part:
                yield from end_canister()
                yield self._read_call(part, turn_id, wrapper)
                wrapper = {}
            elif any(name in part for name in (*VENDOR_CALLS, *VENDOR_RESULTS)):
                yield from end_canister()
                if any(name in part for name in VENDOR_CALLS):
                    vendor_id = produce_identity()  # what follows it is taken as its result
                yield read_vendor_part({**part, **wrapper}, vendor_id or "call", turn_id)
                wrapper = {}
            else:
                contents.append(_read_spoken(part))
        if not parts:
            native = keep_native(PROTOCOL, wrapper)
            yield AssistantCanister((), turn_id=turn_id, native=native)
        yield from end_canister()

    def _read_call(
        self, part: dict[str, Any], turn_id: str, wrapper: dict[str, Any]
    ) -> InvocationCanister:
        call = camelize(part["functionCall"])
        identity = call.get("id") or f"call_{produce_identity()}"
        self._unanswered.add(Unanswered(identity, call.get("name") or ""))
        return InvocationCanister(
            invocation_id=identity,
            name=call.get("name") or "",
            arguments=write_json(call.get("args") or {}),
            turn_id=turn_id,
            native=keep_native(
                PROTOCOL,
                {**read_call_extras(part), **wrapper, **({} if call.get("id") else NAMELESS)},
            ),
        )

    def _read_input(
        self, parts: Sequence[dict[str, Any]], extras: dict[str, Any]
    ) -> Iterator[AnyCanister]:
        contents: list[AnyContent] = []
        previous: str | None = None

        def compose_wrapper(role: str) -> dict[str, Any]:
            if previous is None:
                # Otherwise a result that begins a content would join the results before it.
                return extras | ({"joined": False} if role == "result" else {})
            # Results are joined by default; other contents must note that they shared a content.
            both_results = previous == role == "result"
            return {} if both_results else {"joined": True}

        for part in parts:
            if "functionResponse" not in part:
                contents.append(_read_spoken(part))
                continue
            if contents:
                yield _produce_user(contents, compose_wrapper("user"))
                contents, previous = [], "user"
            yield self._read_result(part, compose_wrapper("result"))
            previous = "result"
        if contents or not parts:
            yield _produce_user(contents, compose_wrapper("user"))

    def _read_result(self, part: dict[str, Any], wrapper: dict[str, Any]) -> ResultCanister:
        block = camelize(part["functionResponse"])
        identity, name = block.get("id"), block.get("name")
        waiting = self._unanswered
        found = waiting.take_by_id(identity) if identity else waiting.take_by_name(name)
        if found is None and not identity and not name:
            found = waiting.take_first()
        given = identity or (found.invocation_id if found else f"call_{produce_identity()}")
        return read_result(part, given, wrapper)


def _read_spoken(part: dict[str, Any]) -> AnyContent:
    """Return the content of a part; one of the other side keeps its kind."""
    for name in ("functionCall", "functionResponse", *VENDOR_CALLS, *VENDOR_RESULTS):
        if name in part:
            return NativeContent(kind=name, native=make_native(PROTOCOL, part))
    return read_content(part)


def _produce_user(contents: Sequence[AnyContent], wrapper: dict[str, Any]) -> UserCanister:
    native = keep_native(PROTOCOL, {"content": wrapper} if wrapper else {})
    return UserCanister(tuple(contents), native=native)


def read_result(
    part: Mapping[str, Any], invocation_id: str, content: Mapping[str, Any]
) -> ResultCanister:
    """Return the result in a part with ``functionResponse``.

    Args:
        invocation_id: Used if the part has none.
        content: Native data of the message around it.
    """
    block = camelize(part["functionResponse"])
    response = block.get("response")
    rest = leave(block, ("id", "name", "response", "parts"))
    is_error = isinstance(response, Mapping) and "error" in response and "output" not in response
    extras = without(part, "functionResponse")
    if rest:
        extras["functionResponse"] = rest
    if content:
        extras["content"] = dict(content)
    media = [read_content(each) for each in block.get("parts") or ()]
    return ResultCanister(
        [*_read_response(response), *media],
        invocation_id=block.get("id") or invocation_id,
        name=block.get("name"),
        is_error=is_error,
        native=keep_native(PROTOCOL, extras),
    )


def _read_response(response: object) -> list[AnyContent]:
    match response:
        case None:
            return []
        case {"output": str(text), **rest} | {"error": str(text), **rest} if not rest:
            return [TextualContent(text)]
        case _:
            return [TextualContent(write_json(response), mime_type=JSON_TYPE)]
