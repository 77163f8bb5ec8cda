"""Contents as the parts of a message, or as one text for messages without parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, assert_never

from vibe_llms.dialects.chat_completions.quirks import Quirks
from vibe_llms.dialects.chat_completions.tables import FILE_NAMES
from vibe_llms.dialects.extras import merge
from vibe_llms.dialects.framing import ContentWithPath
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import admit_medium, name_file, read_unsupported_file
from vibe_llms.dialects.payloads import (
    AUDIO_FORMATS,
    compose_url,
    encode_payload,
    has_payload,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    FileContent,
    ImageContent,
    MediaContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.texts import BOUNDARY
from vibe_llms.models.attributes import ModelAttributes

_UNSUPPORTED_FIELDS: Final = {"audio": ("transcript",), "file": ("title", "context")}
"""Fields of media that do not exist in parts."""


@define
class PartsWriter:
    """Writes contents as parts and records losses."""

    attributes: ModelAttributes
    quirks: Quirks
    ledger: Ledger

    def write_content(
        self,
        contents: Iterable[ContentWithPath],
        path: str,
        canister: AnyCanister | None = None,
    ) -> str | list[JsonObject]:
        """Return the content of a user's message: a text if that is enough, otherwise parts.

        Raises:
            CapabilityError: The model is known not to support a content.
            RequestError: The bytes of a medium are missing.
        """
        written = (self.write_part(content, place, canister) for content, place in contents)
        parts = [part for part in written if part is not None]
        # Media require parts.
        if not self.quirks.takes_parts and all(part.get("type") == "text" for part in parts):
            return self._join(parts, path)
        if not parts:
            return ""
        is_text = len(parts) == 1 and parts[0].keys() == {"type", "text"}
        return str(parts[0]["text"]) if is_text else parts

    def write_texts(
        self,
        contents: Iterable[ContentWithPath],
        path: str,
        canister: AnyCanister,
        *,
        as_parts: bool = False,
    ) -> str | list[JsonObject]:
        """Return the text of a message that supports only text; report everything else as lost."""
        parts: list[JsonObject] = []
        for content, place in contents:
            if isinstance(content, TextualContent):
                parts.append(self.write_part(content, place, canister) or {})
            else:
                reason = f"a {canister.role} message cannot contain {content.type} content"
                self.ledger.drop(place, reason)
        is_plain = all(part.keys() == {"type", "text"} for part in parts)
        if self.quirks.takes_parts and (as_parts or not is_plain):
            return parts
        return self._join(parts, path)

    def _join(self, parts: Sequence[JsonObject], path: str) -> str:
        """Join the texts of a message, separated so that they do not run together."""
        texts = [str(part["text"]) for part in parts if part["text"]]
        if len(texts) > 1:
            self.ledger.coerce(
                f"{path}.content", "its texts are sent as one, separated by empty lines"
            )
        return BOUNDARY.join(texts)

    def write_part(
        self, content: AnyContent, path: str, canister: AnyCanister | None
    ) -> JsonObject | None:
        """Return one content as a part; ``None``, with a loss, if that is impossible."""
        match content:
            case TextualContent():
                return self._write_text(content, path, canister)
            case ImageContent() | AudioContent() | VideoContent() | FileContent():
                return self._write_admitted_medium(content, path, canister)
            case NativeContent():
                if self.ledger.admits(content.native, canister):
                    return self.ledger.read_sendable(content.native, path, canister)
                self.ledger.withhold(path, f"{content.kind} belongs to another vendor")
            case ReasoningContent() | RefusalContent():
                self.ledger.drop(path, f"a user message cannot contain {content.type} content")
            case CacheHint():
                self.ledger.omit_hint(path)
            case _:
                assert_never(content)
        return None

    def _write_text(
        self, content: TextualContent, path: str, canister: AnyCanister | None
    ) -> JsonObject:
        part = {"type": "text", "text": content.text}
        self.ledger.omit(
            content, path, "mime_type", reason="this protocol has no field for the type of a text"
        )
        if content.citations and not isinstance(canister, AssistantCanister):
            self.ledger.withhold(f"{path}.citations", "only texts of the model can have citations")
        if not self.quirks.takes_parts:
            self.ledger.omit_native(content.native, path)
            return part
        return merge(part, self.ledger.read_sendable(content.native, path, canister))

    def _write_admitted_medium(
        self, content: MediaContent, path: str, canister: AnyCanister | None
    ) -> JsonObject | None:
        text = read_unsupported_file(content, self.attributes, path, self.ledger)
        if text is not None:
            return {"type": "text", "text": text}
        admitted = admit_medium(content, self.attributes, path, canister, self.ledger)
        return None if admitted is None else self._write_medium(admitted, path, canister)

    def _write_medium(
        self, content: MediaContent, path: str, canister: AnyCanister | None
    ) -> JsonObject | None:
        extras = self.ledger.read_sendable(content.native, path, canister)
        is_bare, kind = bool(extras.pop("$bare", False)), extras.pop("type", "")
        part, is_own = None, self.ledger.admits(content.native, canister)
        match content:
            case ImageContent() if content.file_id is None or has_payload(content) or content.url:
                part = write_image(content, path)
            case AudioContent():
                part = self._write_audio(content, path, kind, is_bare=is_bare, is_own=is_own)
            case VideoContent() if is_own or "video_url" in self.quirks.media:
                if content.url or has_payload(content):
                    part = {"type": "video_url", "video_url": {"url": compose_url(content, path)}}
            case FileContent():
                part_type = kind or self._find_file_part(content)
                part = self._write_file(content, path, part_type, is_bare=is_bare)
        if part is None:
            reason = f"the vendor does not accept this {content.type} ({content.mime_type})"
            self.ledger.drop(path, reason)
            return None
        # Only files have names in this protocol.
        unnamed = () if isinstance(content, FileContent) else ("name",)
        names = (*unnamed, *_UNSUPPORTED_FIELDS.get(content.type, ()))
        self.ledger.omit(content, path, *names, reason=f"{content.type} content has no such field")
        return merge(part, extras)

    def _find_file_part(self, content: FileContent) -> str:
        if has_payload(content) or content.url is None:
            return "file"
        return self.quirks.file_part or ""

    def _write_audio(
        self, content: AudioContent, path: str, kind: str, *, is_bare: bool, is_own: bool
    ) -> JsonObject | None:
        if is_bare:
            compose = encode_payload if has_payload(content) else compose_url
            return {"type": "input_audio", "input_audio": compose(content, path)}
        takes_url = kind == "audio_url" or "audio_url" in self.quirks.media
        is_at_url = content.url is not None and not has_payload(content)
        if kind == "audio_url" or (takes_url and is_at_url):
            return {"type": "audio_url", "audio_url": {"url": compose_url(content, path)}}
        audio_format = AUDIO_FORMATS.get(content.mime_type)
        if audio_format is None and is_own:
            audio_format = content.mime_type.removeprefix("audio/")
        if audio_format is None or is_at_url or "input_audio" not in self.quirks.media:
            return None
        if content.data is None and content.url is None and content.file_id is not None:
            return None
        audio = {"data": encode_payload(content, path)}
        if audio_format != "*":  # `audio/*`: an unknown format
            audio["format"] = audio_format
        return {"type": "input_audio", "input_audio": audio}

    def _write_file(
        self, content: FileContent, path: str, kind: str, *, is_bare: bool
    ) -> JsonObject | None:
        compose = encode_payload if is_bare else compose_url
        if kind in FILE_NAMES:
            return _write_file_url(kind, compose(content, path), content)
        if kind != "file":
            return None
        if self.quirks.flat_file_ids and content.file_id is not None and content.data is None:
            return {"type": "file", "file_id": content.file_id}
        file: dict[str, Any] = {}
        if content.file_id is not None:
            file["file_id"] = content.file_id
        if content.url is not None or content.data is not None or not file:
            file["file_data"] = compose(content, path)
        if content.name is not None:
            file["filename"] = content.name
        elif "file_data" in file:
            file["filename"] = content.title or name_file(content)
            self.ledger.synthesize(
                f"{path}.name", "the vendor requires a file name; one was generated"
            )
        return {"type": "file", "file": file}


def write_image(content: ImageContent, path: str) -> JsonObject:
    """Return the part of an image. Raises RequestError if its bytes are missing."""
    detail = {} if content.detail is None else {"detail": content.detail}
    return {"type": "image_url", "image_url": {"url": compose_url(content, path), **detail}}


def _write_file_url(kind: str, url: str, content: FileContent) -> JsonObject:
    """Return a file by its URL. Mistral expects the URL directly, other vendors in an object."""
    part: dict[str, Any] = {"type": kind, kind: url if kind == "document_url" else {"url": url}}
    if content.name is not None:
        part[FILE_NAMES[kind]] = content.name
    return part
