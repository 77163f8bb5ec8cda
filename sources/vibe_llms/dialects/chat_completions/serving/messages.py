"""A client's messages as canisters, for gateways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from vibe_llms.dialects.cache_hints import CACHE_CONTROL, take_cache_control
from vibe_llms.dialects.chat_completions.calling.calls import find_kind, is_known
from vibe_llms.dialects.chat_completions.calling.citations import read_citation
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving.message_parts import read_part, read_reasoning
from vibe_llms.dialects.chat_completions.tables import REASONING_DETAILS, REASONING_FIELDS
from vibe_llms.dialects.decoding import is_blank
from vibe_llms.dialects.extras import MESSAGE, collect_extras, keep_native, make_native, write_json
from vibe_llms.dialects.openai_caching import take_mark
from vibe_llms.dialects.prefix_cache import ClientPrefixes
from vibe_llms.dialects.reading import TEXT_ROLES, ConversationReader, read_each
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    AudioContent,
    CacheHint,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.trusting import make_text

_TEXT_FIELDS: Final = frozenset({"role", "content"})
_UNKNOWN_ROLE_FIELDS: Final = frozenset({"content"})
_RESULT_FIELDS: Final = frozenset({"role", "content", "tool_call_id"})
_LEGACY_RESULT_FIELDS: Final = frozenset({"content", "name"})
_COMMON_TURN_FIELDS: Final = frozenset({"role", "content", "tool_calls"})
_TURN_FIELDS: Final = _COMMON_TURN_FIELDS | {
    "annotations",
    "audio",
    "function_call",
    "refusal",
    REASONING_DETAILS,
    *REASONING_FIELDS,
}
"""Fields that are read from each message; all other fields are native data."""

_CALL_FIELDS: Final = {kind: frozenset({"id", kind}) for kind in ("function", "custom")}
_TYPED_CALL_FIELDS: Final = {kind: known | {"type"} for kind, known in _CALL_FIELDS.items()}
_CALL_OBJECT_FIELDS: Final = {
    "function": frozenset({"name", "arguments"}),
    "custom": frozenset({"name", "input"}),
}
"""Fields of a call, and of the object in the call, by the call's kind."""


def normalize_messages(
    native: Mapping[str, Any], cache: ClientPrefixes | None = None
) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``messages``.

    Lossless. Invocations without an id get an id, and are returned without one.

    Args:
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: A message is invalid.
    """
    reader = read_each(
        _MessagesReader(),
        native.get("messages") or (),
        kind="message",
        field="messages",
        protocol="Chat Completions",
        cache=cache,
    )
    return reader.finish()


@define
class _MessagesReader(ConversationReader):
    """Reads messages in order; remembers the calls that later results refer to.

    Attributes:
        names: The name of each invocable, by the id of the invocation.
        legacy: The number of invocations in the older form without ids.
    """

    text_roles: tuple[str, ...] = attrs.field(default=TEXT_ROLES, init=False)
    names: dict[str, str] = attrs.field(factory=dict)
    legacy: int = 0
    _unanswered: list[str] = attrs.field(factory=list, init=False)

    def read(self, message: Mapping[str, Any], index: int) -> None:
        """Add the canisters of one message."""
        match message["role"]:
            case "assistant":
                self._read_turn(message)
            case "tool":
                self._read_result(message)
            case "user":
                contents, extras = _read_text_message(message, _TEXT_FIELDS)
                self.add_user(contents, keep_native(PROTOCOL, extras))
            case "system" | "developer" as role:
                contents, extras = _read_text_message(message, _TEXT_FIELDS)
                if role != "system":
                    extras["role"] = role
                self.add_supervisor(contents, keep_native(PROTOCOL, extras))
            case "function":
                self._read_legacy_result(message)
            case str():  # a model's template may have other roles
                contents, extras = _read_text_message(message, _UNKNOWN_ROLE_FIELDS)
                self.add_supervisor(contents, keep_native(PROTOCOL, extras))
            case role:
                raise TypeError(f"unknown role {role!r}")

    def _read_result(self, message: Mapping[str, Any]) -> None:
        content, identity = message.get("content"), message.get("tool_call_id")
        is_usual = identity.__class__ is content.__class__ is str and len(message) == 3
        if is_usual and identity and content:  # there are no other fields
            name = self.names.get(identity)
            self.add_result((make_text(content),), identity, name, None)
            return
        contents, extras = _read_text_message(message, _RESULT_FIELDS)
        identity = str(identity or "")
        if not identity:
            if not self._unanswered:
                raise TypeError("it has no id of a call")
            identity = self._unanswered.pop(0)  # calls without ids are answered in order
        native = keep_native(PROTOCOL, extras)
        self.add_result(contents, identity, self.names.get(identity), native)

    def _generate_id(self, path: str) -> str:
        reason = "the client sent no id; one was generated"
        self.losses.append(Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason))
        return f"call_{len(self.losses)}"

    def _read_legacy_result(self, message: Mapping[str, Any]) -> None:
        contents, extras = _read_text_message(message, _LEGACY_RESULT_FIELDS)
        identity, name = f"function_call_{self.legacy}", str(message["name"])
        self.add_result(contents, identity, name, keep_native(PROTOCOL, extras))

    def _read_turn(self, message: Mapping[str, Any]) -> None:
        turn_id = self.draw_id()
        contents, extras = _read_model_message(message)
        hint: CacheHint | None = None
        if CACHE_CONTROL in extras:
            extras, hint = take_cache_control(extras)
            if contents and hint is not None:
                contents, hint = (*contents, hint), None
        calls = message.get("tool_calls") or ()
        for call in calls:
            if call.get("function").__class__ is not dict and not is_known(call):
                extras["$calls"] = {
                    str(position): call for position, call in enumerate(calls) if not is_known(call)
                }
                calls = [call for call in calls if is_known(call)]
                break
        has_legacy = "function_call" in message and not is_blank(message["function_call"])
        if contents or not (calls or has_legacy):
            self.add_answer(contents, turn_id, keep_native(PROTOCOL, extras))
            extras = {}
        # Without contents, no other canister could keep the message's native data.
        for call in calls:
            function = call.get("function")
            if (
                not extras
                and len(call) == 3
                and function.__class__ is dict
                and len(function) == 2
                and (arguments := function.get("arguments")).__class__ is str
                and (identity := call.get("id"))
                and call.get("type") == "function"
            ):  # there are no other fields
                self.names[identity] = name = function["name"]
                self.add_call(identity, name, arguments, turn_id, None, "json", hint)
            else:
                self._read_call(call, turn_id, extras, hint)
            extras, hint = {}, None
        if has_legacy:
            self._read_legacy_call(message["function_call"], turn_id, extras)

    def _read_call(
        self,
        call: Mapping[str, Any],
        turn_id: str,
        message: JsonObject,
        message_hint: CacheHint | None,
    ) -> None:
        hint = message_hint
        if CACHE_CONTROL in call:
            call, own_hint = take_cache_control(call)
            hint = own_hint or message_hint
        identity, name, arguments, arguments_format, extras = _read_any_call(call)
        if message:
            extras[MESSAGE] = message
        native = keep_native(PROTOCOL, extras)
        if not identity:
            identity = self._generate_id("tool_calls")
            self._unanswered.append(identity)
        self.names[identity] = name
        self.add_call(identity, name, arguments, turn_id, native, arguments_format, hint)

    def _read_legacy_call(
        self, function: Mapping[str, Any], turn_id: str, message: JsonObject
    ) -> None:
        self.legacy += 1
        extras = {"function_call": collect_extras(function, ("name", "arguments"))} | (
            {MESSAGE: message} if message else {}
        )
        self.add_call(
            f"function_call_{self.legacy}",
            function["name"],
            function["arguments"],
            turn_id,
            make_native(PROTOCOL, extras),
        )


def _read_any_call(
    call: Mapping[str, Any],
) -> tuple[Any, Any, Any, Literal["json", "text"], dict[str, Any]]:
    """Return id, name, arguments and form of an invocation, and its native fields."""
    kind = find_kind(call)
    inner = call[kind]
    arguments_field = "arguments" if kind == "function" else "input"
    inner_extras = collect_extras(inner, _CALL_OBJECT_FIELDS[kind])
    arguments = inner.get(arguments_field) or ""
    if not isinstance(arguments, str):  # servers with templates accept data
        inner_extras[arguments_field] = arguments
        arguments = write_json(arguments)
    has_own_type = call.get("type") == kind
    call_fields = _TYPED_CALL_FIELDS[kind] if has_own_type else _CALL_FIELDS[kind]
    extras = collect_extras(call, call_fields)
    arguments_format: Literal["json", "text"] = "json" if kind == "function" else "text"
    return (
        call.get("id"),
        inner["name"],
        arguments,
        arguments_format,
        {**extras, kind: inner_extras} if inner_extras else extras,
    )


def _read_text_message(
    message: Mapping[str, Any], known: frozenset[str]
) -> tuple[Sequence[AnyContent], dict[str, Any]]:
    """Return the contents of a text message, and its native fields."""
    content = message.get("content")
    extras = collect_extras(message, known)
    contents = read_content(content)
    if len(contents) > 1 and message["role"] != "user":  # a user's contents are always parts
        extras["$parts"] = True
    if CACHE_CONTROL in extras:
        extras, hint = take_cache_control(extras)
        contents = contents if hint is None else (*contents, hint)
    return contents, extras


def read_content(content: str | Sequence[Any] | None) -> Sequence[AnyContent]:
    """Return the contents of a message's content, in any of its forms."""
    if isinstance(content, str):
        return (make_text(content),) if content else ()
    if content is None:
        return ()
    contents: list[AnyContent] = []
    for part in content:
        if isinstance(part, str):
            contents.append(make_text(part))
            continue
        part, hint = take_mark(part)
        contents.append(read_part(part))
        if hint is not None:
            contents.append(hint)
    return contents


def _read_model_message(message: Mapping[str, Any]) -> tuple[Sequence[AnyContent], dict[str, Any]]:
    """Return the contents of the model's message, and its native fields."""
    content = message.get("content")
    if content is None or content.__class__ is str:
        # The other field is the role.
        has_more = len(message) > 1 + ("content" in message) + ("tool_calls" in message)
        if not has_more or _has_only_content_and_calls(message):
            return (make_text(content),) if content else (), {}
    extras = collect_extras(message, _TURN_FIELDS)
    parts = [_mark_as_own_part(each) for each in read_content(message.get("content"))]
    contents: list[AnyContent] = [*read_reasoning(message), *parts]
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        contents.append(RefusalContent(message["refusal"]))
    if message.get("audio"):
        contents.append(_read_audio(message["audio"]))
    for name in REASONING_FIELDS:
        value = message.get(name)
        is_reasoning = isinstance(value, str) and value
        if value is not None and not is_reasoning:
            extras[name] = value  # some vendors require reasoning, even if empty
    if message.get("annotations"):
        _attach_citations(contents, message["annotations"], extras)
    if len(parts) > 1:
        extras["$parts"] = True
    return contents, extras


def _has_only_content_and_calls(message: Mapping[str, Any]) -> bool:
    """Return whether a message of the model has nothing but a content and calls.

    Clients may send the null fields of an answer back; these are ignored.
    """
    return all(value is None for name, value in message.items() if name not in _COMMON_TURN_FIELDS)


def _mark_as_own_part(content: AnyContent) -> AnyContent:
    """Mark a medium in the model's message with native data: only this protocol has such parts."""
    if isinstance(content, MEDIA_CLASSES) and content.native is None:
        return attrs.evolve(content, native=make_native(PROTOCOL, {}))
    return content


def _attach_citations(
    contents: list[AnyContent], annotations: Sequence[Any], extras: dict[str, Any]
) -> None:
    """Put the citations on the last text; without a text they are kept as native data."""
    are_known = all(isinstance(annotation, Mapping) for annotation in annotations)
    for index, content in reversed(list(enumerate(contents))):
        if isinstance(content, TextualContent) and are_known:
            citations = [read_citation(annotation) for annotation in annotations]
            contents[index] = attrs.evolve(content, citations=citations)
            return
    extras["annotations"] = annotations


def _read_audio(audio: Mapping[str, Any]) -> AudioContent:
    native = make_native(PROTOCOL, collect_extras(audio, ("id",)))
    return AudioContent(mime_type="audio/*", file_id=str(audio["id"]), native=native)
