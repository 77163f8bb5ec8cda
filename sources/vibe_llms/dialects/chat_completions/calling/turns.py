"""A turn of the model as one message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.bookkeeping import is_bookkeeping
from vibe_llms.dialects.chat_completions.calling.parts import PartsWriter, write_image
from vibe_llms.dialects.chat_completions.calling.reasoning import (
    join_texts,
    write_detail,
    write_envelope,
    write_thinking,
)
from vibe_llms.dialects.chat_completions.quirks import PROTOCOL
from vibe_llms.dialects.chat_completions.tables import DETAIL_FIELDS, REASONING_DETAILS
from vibe_llms.dialects.extras import MESSAGE, merge, read_native, write_json
from vibe_llms.dialects.history import HistoryEntry
from vibe_llms.dialects.invocations import write_arguments, write_object
from vibe_llms.dialects.ledger import reading_natives
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister, InvocationCanister
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    FileContent,
    ImageContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.texts import BOUNDARY, separates_texts

_CONTENT_SUBSTITUTES: Final = frozenset({"audio", "function_call", "refusal", "tool_calls"})
"""Fields of a message that make its content optional in a request; reasoning does not."""


@define
class TurnWriter:
    """Writes a model's reasoning, text and calls of one turn as one message.

    Attributes:
        fields: Fields of the message other than its content and calls.
    """

    parts: PartsWriter
    _content: list[JsonObject] = attrs.field(factory=list)
    fields: dict[str, Any] = attrs.field(factory=dict)
    _extras: dict[str, Any] = attrs.field(factory=dict)
    _calls: list[JsonObject] = attrs.field(factory=list)
    _details: list[tuple[ReasoningContent, dict[str, Any]]] = attrs.field(factory=list)
    _envelopes: list[str] = attrs.field(factory=list)
    """Wrapped signatures of other vendors."""
    _plain_fields: list[str] = attrs.field(factory=list)
    """Fields that repeat the text of the details."""
    _separated_positions: set[int] = attrs.field(factory=set)
    """Positions of texts that an empty line separates from the text before them."""
    _joined_paths: dict[str, None] = attrs.field(factory=dict)
    """Paths of the contents whose texts are joined, in order."""
    _is_separated: bool = False
    """Whether the next text must be separated from the previous text."""

    def write(self, turn: Sequence[HistoryEntry]) -> dict[str, Any]:
        """Return the message. Raises RequestError."""
        for entry in turn:
            with reading_natives(entry.canister, entry.path):
                if isinstance(entry.canister, InvocationCanister):
                    self.add_invocation(entry.canister, entry.path)
                else:
                    self.add_contents(entry.canister, entry.path)
        return self.compose(turn[0].path if turn else "canisters")

    def add_contents(self, canister: AnyCanister, path: str) -> None:
        """Add reasoning and text."""
        ledger = self.parts.ledger
        if self._calls and not all(map(_is_carrier, canister.content)):
            reason = "content after an invocation of the same turn is moved before it"
            ledger.coerce(path, reason)
        self._extras = self._extras | ledger.read_sendable(canister.native, path, canister)
        self._is_separated = True
        for index, content in enumerate(canister.content):
            self._add(content, f"{path}.content[{index}]", canister)

    def add_invocation(self, canister: InvocationCanister, path: str) -> None:
        """Add a call."""
        extras = self.parts.ledger.read_sendable(canister.native, path, canister)
        # A message with only calls has no content: the first call keeps the message's native data.
        self._extras = self._extras | extras.pop(MESSAGE, {})
        if canister.content:
            reason = "an invocation can contain only its arguments"
            self.parts.ledger.drop(f"{path}.content", reason)
        # A call in the older form is returned in that form.
        if "function_call" in extras:
            function = {"name": canister.name, "arguments": write_arguments(canister, PROTOCOL)}
            self.fields["function_call"] = merge(function, extras["function_call"])
            return
        call: dict[str, Any] = {"id": canister.invocation_id, "type": "function"}
        if canister.form == "json":
            arguments = (
                write_arguments(canister, PROTOCOL)
                if self.parts.quirks.takes_broken
                else write_object(canister, path, self.parts.ledger)
            )
            call["function"] = {"name": canister.name, "arguments": arguments}
        elif self.parts.quirks.takes_custom:
            custom = {"name": canister.name, "input": canister.arguments}
            call |= {"type": "custom", "custom": custom}
        else:
            reason = "a call with free text is sent as one with JSON arguments"
            self.parts.ledger.coerce(path, reason)
            arguments = write_json({"input": canister.arguments})
            call["function"] = {"name": canister.name, "arguments": arguments}
        self._calls.append(merge(call, extras))

    def compose(self, path: str) -> dict[str, Any]:
        """Return the message."""
        extras = self._extras
        content = self._join(as_parts=bool(extras.pop("$parts", False)))
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if self._details:
            message[REASONING_DETAILS] = [
                write_detail(item, other_fields) for item, other_fields in self._details
            ]
        if self._envelopes:
            message.setdefault(REASONING_DETAILS, []).extend(map(write_envelope, self._envelopes))
        for name in self._plain_fields:
            message[name] = join_texts([item for item, _ in self._details])
        message |= self.fields
        self._ensure_reasoning(message, path)
        for position, call in extras.pop("$calls", {}).items():
            self._calls.insert(int(position), call)  # native blocks, at their positions
        if self._calls:
            message["tool_calls"] = self._calls
        return merge(message, extras)

    def _join(self, *, as_parts: bool) -> Any:
        """Return the content: a text if that is enough, null if there is none."""
        quirks = self.parts.quirks
        if not self._content:
            needs_no_content = self._calls or self.fields.keys() & _CONTENT_SUBSTITUTES
            return None if needs_no_content and quirks.takes_null else ""
        is_plain = all(part.keys() == {"type", "text"} for part in self._content)
        if is_plain and not (as_parts and quirks.takes_parts):
            for path in self._joined_paths:
                self.parts.ledger.coerce(path, "its texts are joined: a message has one text")
            texts: list[str] = []
            for position, part in enumerate(self._content):
                separator = BOUNDARY if position in self._separated_positions else ""
                texts.append(separator + str(part["text"]))
            return "".join(texts)
        return self._content

    def _ensure_reasoning(self, message: dict[str, Any], path: str) -> None:
        quirks, field = self.parts.quirks, self.parts.quirks.reasoning_field
        is_required = quirks.needs_reasoning and self._calls
        if is_required and field is not None and field not in message:
            reason = "empty reasoning was added: the vendor requires reasoning with invocations"
            self.parts.ledger.synthesize(path, reason)
            message[field] = ""

    def _add(self, content: AnyContent, path: str, canister: AnyCanister) -> None:
        ledger = self.parts.ledger
        self._is_separated = self._is_separated or separates_texts(content)
        match content:
            case TextualContent():
                self._mark_boundary(content, path)
                self._content.append(self.parts.write_part(content, path, canister) or {})
                self.cite(content, path, canister)
            case RefusalContent():
                self._write_refusal(content, path, canister)
            case ReasoningContent():
                self._write_reasoning(content, path, canister)
            case AudioContent() if self.has_audio_field(content):
                self.add_audio(content, path, canister)
            case ImageContent() if self.is_generated_image(content, path, canister):
                ledger.omit(content, path, "name", reason="a generated image has no such field")
                extras = ledger.read_sendable(content.native, path, canister)
                extras.pop("images", None)
                image = merge(write_image(content, path), extras)
                self.fields.setdefault("images", []).append(image)
            case ImageContent() | AudioContent() | VideoContent() | FileContent() if ledger.admits(
                content.native, canister
            ):
                part = self.parts.write_part(content, path, canister)
                self._content += [] if part is None else [part]
            case NativeContent() if ledger.admits(content.native, canister):
                self._content.append(ledger.read_sendable(content.native, path, canister))
            case _:
                reason = f"{content.type} content of the model cannot be sent back"
                ledger.withhold(path, reason)

    def _mark_boundary(self, content: TextualContent, path: str) -> None:
        """Note the position at which a text is joined to another, and whether to separate them."""
        if content.text and any(part.get("text") for part in self._content):
            if self._is_separated:
                self._separated_positions.add(len(self._content))
            self._joined_paths[path.rpartition("[")[0]] = None
        self._is_separated = self._is_separated and not content.text

    def is_generated_image(self, content: ImageContent, path: str, canister: AnyCanister) -> bool:
        """Return whether an image goes into the message's field for generated images."""
        native = content.native
        return self.parts.ledger.admits(native, canister) and "images" in read_native(native, path)

    def cite(self, content: TextualContent, path: str, canister: AnyCanister) -> None:
        """Add the citations of a text in a client's request; answers keep theirs elsewhere."""
        citations, ledger = content.citations, self.parts.ledger
        if not citations:
            return
        is_clients = canister.origin is None
        if not is_clients or not all(ledger.admits(citation.native) for citation in citations):
            ledger.withhold(f"{path}.citations", "citations cannot be sent back")
            return
        for index, citation in enumerate(citations):
            annotation = ledger.read_sendable(
                citation.native, f"{path}.citations[{index}]", canister
            )
            if annotation and "search_results" not in annotation:
                self.fields.setdefault("annotations", []).append(annotation)

    def _write_refusal(self, content: RefusalContent, path: str, canister: AnyCanister) -> None:
        extras = self.parts.ledger.read_sendable(content.native, path, canister)
        if extras.get("type") == "refusal":
            self._content.append({"type": "refusal", "refusal": content.text, **extras})
            return
        if self.parts.quirks.takes_refusals:
            self.fields["refusal"] = self.fields.get("refusal", "") + content.text
        else:
            self._content.append({"type": "text", "text": content.text})
            self.parts.ledger.coerce(path, "a refusal is sent as text")
        for name in extras:
            self.parts.ledger.drop(f"{path}.native", f"{name}: a refusal has only a text")

    def has_audio_field(self, content: AudioContent) -> bool:
        """Return whether audio has a separate field, instead of a part of the content."""
        return content.file_id is not None

    def add_audio(self, content: AudioContent, path: str, canister: AnyCanister) -> None:
        """Add the audio output, by its id."""
        ledger = self.parts.ledger
        if ledger.admits(content.native, canister):
            is_clients = canister.origin is None
            extras = ledger.read_sendable(content.native, path, canister) if is_clients else {}
            self.fields["audio"] = {"id": content.file_id, **extras}
        elif content.transcript:
            self._content.append({"type": "text", "text": content.transcript})
            ledger.coerce(path, "audio is sent as its transcript")
        else:
            ledger.withhold(path, "only the vendor that produced the audio has it")

    def _write_reasoning(self, content: ReasoningContent, path: str, canister: AnyCanister) -> None:
        ledger, native = self.parts.ledger, content.native
        extras = {} if native is None else read_native(native, path)
        if ledger.admits(native, canister):
            self._report_unsupported_fields(content, extras, path)
            if "part" in extras:
                self._content.append(write_thinking(content, extras["part"]))
                return
            if "detail" in extras:
                self._details.append((content, extras["detail"]))
                self._plain_fields += map(str, extras.get("fields", ()))
                self.fields |= extras.get("told", {})
                return
            if "fields" in extras:
                for name in extras["fields"]:
                    self.fields[name] = self.fields.get(name, "") + content.text
                return
        elif is_wrapped(content.signature):
            self._envelopes.append(content.signature)
        else:
            if content.signature:
                ledger.withhold(
                    f"{path}.signature", "only the vendor that signed it can read the signature"
                )
            if names := ", ".join(sorted(extras.keys() - {"fields"})):
                ledger.withhold(
                    f"{path}.native",
                    f"{names}: only the vendor that produced it can read it",
                    is_routine=all(is_bookkeeping(*field) for field in extras.items()),
                )
        if not _is_carrier(content):
            self._write_foreign_reasoning(content, path)

    def _report_unsupported_fields(
        self, content: ReasoningContent, extras: Mapping[str, Any], path: str
    ) -> None:
        """Record the fields of reasoning that its original form in a message does not have."""
        supported = {"text"}
        if "detail" in extras:
            fields = DETAIL_FIELDS.get(str(extras["detail"].get("type")), ())
            supported = {channel for _, channel in fields}
        names = [name for name in ("text", "summary", "signature") if name not in supported]
        reason = "the vendor's form of this reasoning has no such field"
        self.parts.ledger.omit(content, path, *names, reason=reason)
        for name in sorted(extras.keys() - {"part", "detail", "fields", "told"}):
            self.parts.ledger.drop(f"{path}.native", f"{name}: reasoning has no such field")

    def _write_foreign_reasoning(self, content: ReasoningContent, path: str) -> None:
        """Add reasoning of another vendor, if the vendor accepts its text."""
        ledger, text = self.parts.ledger, content.text or "\n\n".join(content.summary)
        field = self.parts.quirks.reasoning_field
        if not field:
            ledger.withhold(path, "the vendor does not accept reasoning")
        elif field == "thinking" and text:
            self._content.append(write_thinking(attrs.evolve(content, text=text), {}))
        elif text:
            previous = self.fields.get(field)
            self.fields[field] = f"{previous}{BOUNDARY}{text}" if previous else text
            if previous:
                ledger.coerce(path, "it is joined to the preceding reasoning: a message has one")
        if field and content.summary and not content.text:
            ledger.coerce(f"{path}.summary", "the summary is sent as the reasoning")
        elif field and content.summary:
            ledger.drop(f"{path}.summary", "the reasoning is sent without its summary")


def _is_carrier(content: AnyContent) -> bool:
    """Return whether a content is reasoning with only the signature of another vendor."""
    if not isinstance(content, ReasoningContent) or not is_wrapped(content.signature):
        return False
    return not (content.text or content.summary)
