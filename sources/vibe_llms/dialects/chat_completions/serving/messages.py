"""A client's messages as canisters, for gateways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from vibe_llms.dialects.chat_completions.calling.calls import find_kind, is_known
from vibe_llms.dialects.chat_completions.calling.citations import read_citation
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.serving.message_parts import read_part, read_reasoning
from vibe_llms.dialects.chat_completions.tables import DETAILS, FIELDS
from vibe_llms.dialects.decoding import is_blank
from vibe_llms.dialects.extras import MESSAGE, keep_native, leave, make_native, write_json
from vibe_llms.dialects.serving import refuse_nonsense
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    AudioContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Loss, LossKind, Translation

_TURN_FIELDS: Final = (
    "annotations",
    "audio",
    "content",
    "function_call",
    "refusal",
    "role",
    "tool_calls",
    DETAILS,
    *FIELDS,
)


def normalize_messages(native: Mapping[str, Any]) -> Translation[tuple[AnyCanister, ...]]:
    """Return the canisters of a request's ``messages``.

    Lossless; invocations without an id get one, and are returned without it.

    Raises:
        RequestError: A message is invalid.
    """
    reader = _MessagesReader()
    canisters: list[AnyCanister] = []
    for index, message in enumerate(native.get("messages") or ()):
        path = f"messages[{index}]"
        with refuse_nonsense(f"The message at {path}", "Chat Completions", path):
            canisters.extend(reader.read(message))
    return Translation(tuple(canisters), reader.losses)


@define
class _MessagesReader:
    """Reads messages in order; remembers the calls that later results refer to.

    Attributes:
        names: The name of each invocable, by the id of the invocation.
        legacy: The number of invocations in the older form without ids.
    """

    names: dict[str, str] = attrs.field(factory=dict)
    legacy: int = 0
    losses: list[Loss] = attrs.field(factory=list)
    _unanswered: list[str] = attrs.field(factory=list, init=False)

    def read(self, message: Mapping[str, Any]) -> Iterator[AnyCanister]:
        """Yield the canisters of one message."""
        match message["role"]:
            case "system" | "developer" as role:
                contents, kept = _read_words(message, ("role", "content"))
                if role != "system":
                    kept["role"] = role
                yield SupervisorCanister(contents, native=keep_native(PROTOCOL, kept))
            case "user":
                contents, kept = _read_words(message, ("role", "content"))
                yield UserCanister(contents, native=keep_native(PROTOCOL, kept))
            case "tool":
                yield self._read_result(message)
            case "function":
                yield self._read_legacy_result(message)
            case "assistant":
                yield from self._read_turn(message)
            case str():  # a model's template may know other roles
                contents, kept = _read_words(message, ("content",))
                yield SupervisorCanister(contents, native=keep_native(PROTOCOL, kept))
            case role:
                raise TypeError(f"there is no role {role!r}")

    def _read_result(self, message: Mapping[str, Any]) -> ResultCanister:
        contents, kept = _read_words(message, ("role", "content", "tool_call_id"))
        identity = str(message.get("tool_call_id") or "")
        if not identity:
            if not self._unanswered:
                raise TypeError("it does not say which call it answers")
            identity = self._unanswered.pop(0)  # calls without ids are answered in order
        return ResultCanister(
            contents,
            invocation_id=identity,
            name=self.names.get(identity),
            native=keep_native(PROTOCOL, kept),
        )

    def _make_up_id(self, path: str) -> str:
        reason = "the client gave no id; one was made up"
        self.losses.append(Loss(kind=LossKind.SYNTHESIZED, path=path, reason=reason))
        return f"call_{len(self.losses)}"

    def _read_legacy_result(self, message: Mapping[str, Any]) -> ResultCanister:
        contents, kept = _read_words(message, ("content", "name"))
        return ResultCanister(
            contents,
            invocation_id=f"function_call_{self.legacy}",
            name=str(message["name"]),
            native=keep_native(PROTOCOL, kept),
        )

    def _read_turn(self, message: Mapping[str, Any]) -> Iterator[AnyCanister]:
        turn_id = produce_identity()
        contents, kept = _read_spoken(message)
        invocations: list[InvocationCanister] = []
        calls = message.get("tool_calls") or ()
        if unknown := {str(i): call for i, call in enumerate(calls) if not is_known(call)}:
            kept["$calls"] = unknown
        for call in calls:
            if is_known(call):
                # Without contents, no other canister could keep the message's native data.
                first = kept if not contents and not invocations else {}
                invocations.append(self._read_call(call, turn_id, first))
        if not is_blank(message.get("function_call")):
            first = kept if not contents and not invocations else {}
            invocations.append(self._read_legacy_call(message["function_call"], turn_id, first))
        if contents or not invocations:
            native = keep_native(PROTOCOL, kept)
            yield AssistantCanister(contents, turn_id=turn_id, native=native)
        yield from invocations

    def _read_call(
        self, call: Mapping[str, Any], turn_id: str, message: JsonObject
    ) -> InvocationCanister:
        fields = read_call(call)
        if not fields["invocation_id"]:
            fields["invocation_id"] = self._make_up_id("tool_calls")
            self._unanswered.append(fields["invocation_id"])
        self.names[fields["invocation_id"]] = fields["name"]
        kept = fields.pop("kept") | ({MESSAGE: message} if message else {})
        return InvocationCanister(**fields, turn_id=turn_id, native=keep_native(PROTOCOL, kept))

    def _read_legacy_call(
        self, function: Mapping[str, Any], turn_id: str, message: JsonObject
    ) -> InvocationCanister:
        self.legacy += 1
        kept = {"function_call": leave(function, ("name", "arguments"))} | (
            {MESSAGE: message} if message else {}
        )
        return InvocationCanister(
            invocation_id=f"function_call_{self.legacy}",
            name=function["name"],
            arguments=function["arguments"],
            turn_id=turn_id,
            native=make_native(PROTOCOL, kept),
        )


def read_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an invocation, with native ones under ``kept``."""
    kind = find_kind(call)
    form: Literal["json", "text"] = "json" if kind == "function" else "text"
    word = "arguments" if kind == "function" else "input"
    inner = leave(call[kind], ("name", word))
    arguments = call[kind].get(word) or ""
    if not isinstance(arguments, str):  # servers with templates accept data
        inner[word] = arguments
        arguments = write_json(arguments)
    rest = leave(call, ("id", kind))
    if rest.get("type") == kind:
        del rest["type"]
    return {
        "invocation_id": call.get("id"),
        "name": call[kind]["name"],
        "arguments": arguments,
        "form": form,
        "kept": {**rest, kind: inner} if inner else rest,
    }


def _read_words(
    message: Mapping[str, Any], known: Sequence[str]
) -> tuple[list[AnyContent], dict[str, Any]]:
    """Return the contents of a text message, and its native fields."""
    kept = leave(message, known)
    contents = read_content(message.get("content"))
    if len(contents) > 1 and message["role"] != "user":  # whose contents are parts anyway
        kept["$parts"] = True
    return contents, kept


def read_content(content: str | Sequence[Any] | None) -> list[AnyContent]:
    """Return the contents of a message's content, in any of its forms."""
    if content is None:
        return []
    if isinstance(content, str):
        return [TextualContent(content)] if content else []
    texts = ({"type": "text", "text": part} if isinstance(part, str) else part for part in content)
    return [read_part(part) for part in texts]


def _read_spoken(message: Mapping[str, Any]) -> tuple[list[AnyContent], dict[str, Any]]:
    """Return the contents of the model's message, and its native fields."""
    kept = leave(message, _TURN_FIELDS)
    spoken = [_own(each) for each in read_content(message.get("content"))]
    contents: list[AnyContent] = [*read_reasoning(message), *spoken]
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        contents.append(RefusalContent(message["refusal"]))
    if message.get("audio"):
        contents.append(_read_audio(message["audio"]))
    for name in FIELDS:
        said = message.get(name)
        if said is not None and not (isinstance(said, str) and said):
            kept[name] = said  # some vendors require reasoning, even if empty
    if message.get("annotations"):
        _cite(contents, message["annotations"], kept)
    if len(spoken) > 1:
        kept["$parts"] = True
    return contents, kept


def _own(content: AnyContent) -> AnyContent:
    """Mark media in the model's messages as their parts, which only this protocol has."""
    if isinstance(content, MEDIA_CLASSES) and content.native is None:
        return attrs.evolve(content, native=make_native(PROTOCOL, {}))
    return content


def _cite(contents: list[AnyContent], annotations: Sequence[Any], kept: dict[str, Any]) -> None:
    """Put the citations on the last text; without a text they are kept as native data."""
    are_known = all(isinstance(annotation, Mapping) for annotation in annotations)
    for index, content in reversed(list(enumerate(contents))):
        if isinstance(content, TextualContent) and are_known:
            citations = [read_citation(annotation) for annotation in annotations]
            contents[index] = attrs.evolve(content, citations=citations)
            return
    kept["annotations"] = annotations


def _read_audio(audio: Mapping[str, Any]) -> AudioContent:
    native = make_native(PROTOCOL, leave(audio, ("id",)))
    return AudioContent(mime_type="audio/*", file_id=str(audio["id"]), native=native)
