"""Contents as the parts of a message or of a result, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, assert_never

import msgspec

from vibe_llms.dialects.extras import collect_extras, keep_native, make_native, merge
from vibe_llms.dialects.framing import survey_contents
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import admit_medium
from vibe_llms.dialects.responses.calling.citations import read_citation, write_citations
from vibe_llms.dialects.responses.calling.media import (
    read_audio,
    read_file,
    read_image,
    write_audio,
    write_file,
    write_image,
)
from vibe_llms.dialects.responses.quirks import PROTOCOL, Quirks
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    FileContent,
    ImageContent,
    MediaContent,
    ModelContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.trusting import make_text
from vibe_llms.models.attributes import ModelAttributes

_TEXT: Final = frozenset({"type", "text", "annotations"})


def read_part(part: Any, text_type: str) -> ModelContent:
    """Return the content of a part; an unknown one is kept as native data.

    Args:
        text_type: The type of texts there: ``input_text`` or ``output_text``.
    """
    content: ModelContent | None = None
    match part:
        case {"type": "input_text" | "output_text" | "text" as kind, "text": str(text)}:
            content = _read_text(part, kind, text, text_type)
        case {"type": "refusal", "refusal": str(text)}:
            native = keep_native(PROTOCOL, collect_extras(part, ("type", "refusal")))
            content = RefusalContent(text, native=native)
        case {"type": "input_image"}:
            content = read_image(part)
        case {"type": "input_file"}:
            content = read_file(part)
        case {"type": "input_audio"}:
            content = read_audio(part)
    if content is not None:
        return content
    return NativeContent(kind=str(part["type"]), native=make_native(PROTOCOL, part))


def _read_text(part: Mapping[str, Any], kind: str, text: str, text_type: str) -> TextualContent:
    extras = collect_extras(part, _TEXT)
    if not extras.get("logprobs", True):
        del extras["logprobs"]  # an empty list of log probabilities is ignored
    if kind != text_type:
        extras["type"] = kind
    annotations = part.get("annotations")
    if not annotations:
        return make_text(text, keep_native(PROTOCOL, extras))
    citations = [read_citation(annotation) for annotation in annotations]
    return TextualContent(text, citations=citations, native=keep_native(PROTOCOL, extras))


@define
class PartsWriter:
    """Writes contents as parts and records losses."""

    attributes: ModelAttributes
    quirks: Quirks
    ledger: Ledger

    def write_content(
        self,
        canister: AnyCanister,
        path: str,
    ) -> str | list[dict[str, Any]]:
        """Return the content of a message or a result: a text if that is enough, otherwise parts.

        Raises:
            CapabilityError: The model is known not to support a content.
            RequestError: The bytes of a medium are missing.
        """
        contents = survey_contents(canister, path, self.ledger)
        written = (self.write_part(each, place, canister, "input_text") for each, place in contents)
        parts = [part for part in written if part is not None]
        if not parts:
            return ""
        is_text = len(parts) == 1 and parts[0].keys() == {"type", "text"}
        return str(parts[0]["text"]) if is_text and parts[0]["type"] == "input_text" else parts

    def write_part(
        self, content: AnyContent, path: str, canister: AnyCanister, text_type: str
    ) -> dict[str, Any] | None:
        """Return the part of a content; ``None``, with a loss, if there is no such part."""
        match content:
            case TextualContent():
                return self._write_text(content, path, canister, text_type)
            case RefusalContent():
                extras = self.ledger.read_sendable(content.native, path, canister)
                if text_type == "output_text":
                    return merge({"type": "refusal", "refusal": content.text}, extras)
                self.ledger.coerce(path, "only a model can refuse; it is sent as text")
                return {"type": text_type, "text": content.text}
            case ImageContent() | AudioContent() | VideoContent() | FileContent():
                return self._write_medium(content, path, canister, text_type)
            case NativeContent():
                if self.ledger.admits(content.native, canister):
                    part: dict[str, Any] = msgspec.json.decode(content.native.data)
                    return part
                reason = f"{content.kind} belongs to another vendor"
                self.ledger.withhold(path, reason)
            case ReasoningContent():
                self.ledger.drop(path, "only messages of the model can contain reasoning")
            case CacheHint():
                self.ledger.omit_hint(path)
            case _:
                assert_never(content)
        return None

    def _write_text(
        self, content: TextualContent, path: str, canister: AnyCanister, text_type: str
    ) -> dict[str, Any]:
        extras = self.ledger.read_sendable(content.native, path, canister)
        self.ledger.omit(
            content, path, "mime_type", reason="this protocol has no field for the type of a text"
        )
        part: dict[str, Any] = {"type": text_type, "text": content.text}
        kind = extras.get("type", text_type)
        if kind == "output_text":
            part["annotations"] = write_citations(content.citations, path, self.ledger, canister)
        elif content.citations:
            self.ledger.withhold(path, "only texts of the model can have citations")
        return merge(part, extras)

    def _write_medium(
        self, content: MediaContent, path: str, canister: AnyCanister, text_type: str
    ) -> dict[str, Any] | None:
        if text_type == "output_text":
            reason = f"{content.type} content of the model cannot be sent back"
            self.ledger.withhold(path, reason)
            return None
        admitted = admit_medium(content, self.attributes, path, canister, self.ledger)
        if admitted is None:
            return None
        extras = self.ledger.read_sendable(content.native, path, canister)
        match content := admitted:
            case ImageContent():
                self.ledger.omit(content, path, "name", reason="an image is sent without its name")
                return write_image(content, path, extras)
            case FileContent():
                names = ("context", "title") if content.name else ("context",)
                self.ledger.omit(
                    content, path, *names, reason="a file has only a name in this protocol"
                )
                return write_file(content, path, extras, self.ledger)
            case AudioContent() if self._takes_audio(content) and content.content_id:
                names = ("name", "transcript")
                self.ledger.omit(content, path, *names, reason="audio is sent without it")
                return write_audio(content, path, extras)
        self.ledger.drop(
            path, f"this vendor does not accept {content.type} content ({content.mime_type})"
        )
        return None

    def _takes_audio(self, content: AudioContent) -> bool:
        is_own = content.native is not None and content.native.protocol == PROTOCOL
        return is_own or self.quirks.takes_audio
