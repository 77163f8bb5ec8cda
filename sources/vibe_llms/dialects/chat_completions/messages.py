"""Canisters as the messages of a request.

This dialect knows no order of text and invocations within a turn, wants each invocation
answered at once, and takes nothing but text in results. Where a conversation is otherwise, it
is brought into that form, and each such change is a loss that is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import attrs
import msgspec

from vibe_llms.dialects.chat_completions.parts import PartsWriter
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    AnyContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.losses import LossKind, Translation
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.plain import JsonObject

NO_RESULT: Final = "There is no result: it was not executed."
"""What stands in for the result that an invocation lacks."""

_Spoken = AssistantCanister | InvocationCanister


def nativize_canisters(
    canisters: Sequence[AnyCanister], attributes: ModelAttributes, quirks: Quirks
) -> Translation[JsonObject]:
    """Returns ``{"messages": […]}``.

    Raises:
        CapabilityError: The model is known not to take what a canister holds.
        RequestError: The bytes of a medium are not there.
    """
    writer = _MessagesWriter(
        canisters=canisters, quirks=quirks, parts=PartsWriter(attributes, quirks)
    )
    writer.write()
    return Translation({"messages": writer.messages}, writer.parts.losses)


def frame_document(canister: DocumentCanister) -> tuple[AnyContent, ...]:
    """Returns the contents of a document between marks, without a word of advice."""
    title = "" if canister.title is None else f' title="{canister.title}"'
    begin, end = TextualContent(f"<document{title}>\n"), TextualContent("\n</document>")
    if all(isinstance(content, TextualContent) for content in canister.content):
        text = "".join(c.text for c in canister.content if isinstance(c, TextualContent))
        return (TextualContent(f"{begin.text}{text}{end.text}"),)
    return (begin, *canister.content, end)


@attrs.define(kw_only=True)
class _MessagesWriter:
    canisters: Sequence[AnyCanister]
    quirks: Quirks
    parts: PartsWriter
    messages: list[JsonObject] = attrs.field(factory=list)
    _answers: dict[int, int] = attrs.field(factory=dict, init=False)
    _turn: list[tuple[int, _Spoken]] = attrs.field(factory=list, init=False)

    def write(self) -> None:
        self._answers = _pair(self.canisters)
        answered = set(self._answers.values())
        for index, canister in enumerate(self.canisters):
            path = f"canisters[{index}]"
            match canister:
                case InvocationCanister() | ResultCanister() if canister.owner is Owner.VENDOR:
                    reason = "what a vendor executed itself is shown to that vendor alone"
                    self.parts.lose(LossKind.WITHHELD, path, reason)
                case AssistantCanister() | InvocationCanister():
                    if self._turn and not _belongs(self._turn[-1][1], canister):
                        self._end_turn()
                    self._turn.append((index, canister))
                case ResultCanister():
                    self._end_turn()
                    if index not in answered:
                        self._write_orphan(canister, path)
                case _:
                    self._end_turn()
                    self.messages.append(self._write_input(canister, path))
        self._end_turn()

    def _write_input(
        self, canister: UserCanister | SupervisorCanister | DocumentCanister, path: str
    ) -> JsonObject:
        match canister:
            case SupervisorCanister():
                role = self.quirks.supervisor_role
                text = self.parts.write_text(canister.content, path, role)
                return {"role": role, "content": text}
            case DocumentCanister():
                contents = frame_document(canister)
                return {"role": "user", "content": self.parts.write_content(contents, path)}
            case UserCanister():
                content = self.parts.write_content(canister.content, path)
                return {"role": "user", "content": content}

    def _end_turn(self) -> None:
        """Writes the turn of the model that has been gathered, and the results it is owed."""
        turn, self._turn = self._turn, []
        if not turn:
            return
        message = self._write_turn(turn)
        self.messages.append(message)
        shown: list[JsonObject] = []
        for index, canister in turn:
            if isinstance(canister, InvocationCanister):
                self._write_result(index, canister, turn[-1][0], shown)
        self.messages.extend(shown)

    def _write_turn(self, turn: Sequence[tuple[int, _Spoken]]) -> JsonObject:
        texts: list[str] = []
        extra: dict[str, Any] = {}
        calls: list[JsonObject] = []
        for index, canister in turn:
            path = f"canisters[{index}]"
            if isinstance(canister, InvocationCanister):
                if canister.form == "text":
                    reason = "a call with free text goes as one with JSON arguments"
                    self.parts.lose(LossKind.COERCED, path, reason)
                calls.append(_write_call(canister))
                continue
            if calls and canister.content:
                reason = "text after an invocation of the same turn moves before it"
                self.parts.lose(LossKind.COERCED, path, reason)
            for place, content in enumerate(canister.content):
                self._write_spoken(content, f"{path}.content[{place}]", texts, extra)
        text = "".join(texts)
        message: dict[str, Any] = {"role": "assistant", "content": text, **extra}
        if calls:
            message["tool_calls"] = calls
        if not text and (calls or extra):
            message["content"] = None
        return message

    def _write_spoken(
        self, content: AnyContent, path: str, texts: list[str], extra: dict[str, Any]
    ) -> None:
        """Adds one content of the model to the text or to the further fields of its message."""
        match content:
            case TextualContent():
                texts.append(content.text)
                if content.citations:
                    self.parts.lose(LossKind.WITHHELD, path, "citations cannot be sent back")
            case RefusalContent() if self.quirks.takes_refusals:
                extra["refusal"] = extra.get("refusal", "") + content.text
            case RefusalContent():
                texts.append(content.text)
                self.parts.lose(LossKind.COERCED, path, "a refusal becomes text")
            case ReasoningContent():
                self._write_reasoning(content, path, extra)
            case NativeContent() if content.native.protocol == PROTOCOL:
                extra[content.kind] = msgspec.json.decode(content.native.data)
            case _:
                reason = f"{content.type} cannot be sent back as the model's own words"
                self.parts.lose(LossKind.WITHHELD, path, reason)

    def _write_reasoning(self, content: ReasoningContent, path: str, extra: dict[str, Any]) -> None:
        field = self.quirks.reasoning_field
        if content.native is not None and content.native.protocol == PROTOCOL and field:
            extra |= msgspec.json.decode(content.native.data)
        if field is None:
            self.parts.lose(LossKind.WITHHELD, path, "the vendor takes no reasoning back")
        elif content.text:
            extra[field] = extra.get(field, "") + content.text

    def _write_result(
        self, index: int, invocation: InvocationCanister, end: int, shown: list[JsonObject]
    ) -> None:
        """Writes the result of an invocation; what it shows beside text goes into ``shown``."""
        message = {"role": "tool", "tool_call_id": invocation.invocation_id}
        position = self._answers.get(index)
        if position is None:
            reason = "the invocation has no result; a note stands in for it"
            self.parts.lose(LossKind.SYNTHESIZED, f"canisters[{index}]", reason)
            self.messages.append({**message, "content": NO_RESULT})
            return
        result, path = self.canisters[position], f"canisters[{position}]"
        between = self.canisters[end + 1 : position]
        if any(not isinstance(canister, ResultCanister) for canister in between):
            self.parts.lose(LossKind.COERCED, path, "the result moves to its invocation")
        media = [content for content in result.content if isinstance(content, MEDIA_CLASSES)]
        others = [content for content in result.content if content not in media]
        text = self.parts.write_text(others, path, "tool")
        self.messages.append({**message, "content": text})
        if media:
            reason = "media in a result follow it as the user's"
            self.parts.lose(LossKind.COERCED, path, reason)
            shown.append({"role": "user", "content": self.parts.write_content(media, path)})

    def _write_orphan(self, result: ResultCanister, path: str) -> None:
        reason = "a result without its invocation becomes a message of the user"
        self.parts.lose(LossKind.COERCED, path, reason)
        begin = TextualContent(f"Result of {result.name or result.invocation_id}:\n")
        content = self.parts.write_content((begin, *result.content), path)
        self.messages.append({"role": "user", "content": content})


def _belongs(previous: _Spoken, canister: _Spoken) -> bool:
    """Tells whether a canister is of the same turn as the one before it."""
    if previous.turn_id is None and canister.turn_id is None:
        return isinstance(canister, InvocationCanister)
    return previous.turn_id == canister.turn_id


def _pair(canisters: Sequence[AnyCanister]) -> dict[int, int]:
    """Returns the position of the result for each position of an invocation that has one."""
    waiting: dict[str, list[int]] = {}
    answers = {}
    for index, canister in _survey_ours(canisters):
        if isinstance(canister, InvocationCanister):
            waiting.setdefault(canister.invocation_id, []).append(index)
        elif waiting.get(canister.invocation_id):
            answers[waiting[canister.invocation_id].pop(0)] = index
    return answers


def _survey_ours(
    canisters: Sequence[AnyCanister],
) -> Iterator[tuple[int, InvocationCanister | ResultCanister]]:
    for index, canister in enumerate(canisters):
        if not isinstance(canister, InvocationCanister | ResultCanister):
            continue
        if canister.owner is Owner.OURS:
            yield index, canister


def _write_call(invocation: InvocationCanister) -> JsonObject:
    function = {"name": invocation.name, "arguments": invocation.arguments}
    return {"id": invocation.invocation_id, "type": "function", "function": function}
