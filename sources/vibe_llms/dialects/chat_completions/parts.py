"""Contents as the parts of a message, and the texts of those messages that take text alone."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Final, assert_never

import attrs
import msgspec

from vibe_llms.dialects.chat_completions.quirks import PROTOCOL, Quirks
from vibe_llms.exceptions import CapabilityError, RequestError
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    FileContent,
    ImageContent,
    MediaContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.plain import JsonObject

_CAPABILITIES: Final = {
    "image": ("supports_images", "pictures"),
    "audio": ("supports_audio", "sound"),
    "video": ("supports_video", "moving pictures"),
    "file": ("supports_files", "documents"),
}
_AUDIO_FORMATS: Final = {
    "audio/mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/wave": "wav",
    "audio/x-wav": "wav",
}


@attrs.define
class PartsWriter:
    """Writes contents as parts and takes down what could not be carried over."""

    attributes: ModelAttributes
    quirks: Quirks
    losses: list[Loss] = attrs.field(factory=list)

    def lose(self, kind: LossKind, path: str, reason: str) -> None:
        """Takes down a loss."""
        self.losses.append(Loss(kind=kind, path=path, reason=reason))

    def write_content(self, contents: Sequence[AnyContent], path: str) -> str | list[JsonObject]:
        """Returns what a user's message holds: a text where that says it all, else parts.

        Raises:
            CapabilityError: The model is known not to take what is among them.
            RequestError: The bytes of a medium are not there.
        """
        parts = list(self._write_parts(contents, path))
        if all(part.get("type") == "text" for part in parts) and (
            len(parts) < 2 or not self.quirks.takes_parts
        ):
            return "\n".join(str(part["text"]) for part in parts)
        return parts

    def write_text(self, contents: Sequence[AnyContent], path: str, role: str) -> str:
        """Returns the text of a message that takes nothing else; the rest is lost, loudly."""
        texts = []
        for index, content in enumerate(contents):
            if isinstance(content, TextualContent):
                texts.append(content.text)
            else:
                reason = f"{content.type} has no place in a message of the role {role}"
                self.lose(LossKind.DROPPED, f"{path}.content[{index}]", reason)
        return "".join(texts)

    def ensure_capability(self, content: MediaContent, path: str) -> None:
        """Refuses a medium which the model is known not to take. Raises CapabilityError."""
        name, words = _CAPABILITIES[content.type]
        if self.attributes.access_capability(name) is Capability.NO:
            model = str(self.attributes.address)
            raise CapabilityError(
                model=model,
                capability=name,
                path=path,
                detail=f"The model {model} takes no {words}.",
                remedy="Leave it out, or ask a model that does.",
            )

    def _write_parts(self, contents: Iterable[AnyContent], path: str) -> Iterable[JsonObject]:
        for index, content in enumerate(contents):
            part = self._write_part(content, f"{path}.content[{index}]")
            if part is not None:
                yield part

    def _write_part(self, content: AnyContent, path: str) -> JsonObject | None:
        match content:
            case TextualContent():
                return {"type": "text", "text": content.text}
            case ImageContent() | AudioContent() | VideoContent() | FileContent():
                self.ensure_capability(content, path)
                return self._write_medium(content, path)
            case NativeContent():
                if content.native.protocol == PROTOCOL:
                    part: JsonObject = msgspec.json.decode(content.native.data)
                    return part
                self.lose(LossKind.WITHHELD, path, f"{content.kind} belongs to another protocol")
            case ReasoningContent() | RefusalContent():
                self.lose(LossKind.DROPPED, path, f"a user's message holds no {content.type}")
            case _:
                assert_never(content)
        return None

    def _write_medium(self, content: MediaContent, path: str) -> JsonObject | None:
        match content:
            case ImageContent() if content.file_id is None or content.data or content.url:
                url = content.url or compose_data_url(content, path)
                detail = {} if content.detail is None else {"detail": content.detail}
                return {"type": "image_url", "image_url": {"url": url, **detail}}
            case AudioContent() if content.mime_type in _AUDIO_FORMATS and not content.url:
                audio = {"data": encode_data(content, path)}
                audio["format"] = _AUDIO_FORMATS[content.mime_type]
                return {"type": "input_audio", "input_audio": audio}
            case FileContent() if content.file_id is not None:
                return {"type": "file", "file": {"file_id": content.file_id}}
            case FileContent() if not content.url:
                file = {"file_data": compose_data_url(content, path)}
                if content.name is not None:
                    file["filename"] = content.name
                return {"type": "file", "file": file}
        reason = f"{content.type} of this kind ({content.mime_type}) cannot be sent this way"
        self.lose(LossKind.DROPPED, path, reason)
        return None


def encode_data(content: MediaContent, path: str) -> str:
    """Returns the bytes of a medium in base 64. Raises RequestError where they are not there."""
    if content.data is None:
        raise RequestError(
            path=path,
            detail=f"The bytes of the {content.type} {content.content_id} are not in the request.",
            remedy="Read them from the content store first.",
        )
    return base64.b64encode(content.data).decode("ascii")


def compose_data_url(content: MediaContent, path: str) -> str:
    """Returns the bytes of a medium as a data URL. Raises RequestError without bytes."""
    return f"data:{content.mime_type};base64,{encode_data(content, path)}"
