"""Contents as the fields of one message: a text, reasoning and media side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import attrs

from vibe_llms.dialects.framing import ContentWithPath
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import (
    admit_type,
    ensure_capability,
    read_words,
    tell_words,
)
from vibe_llms.dialects.payloads import encode_payload
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister
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
from vibe_llms.messages.texts import BOUNDARY, separates_texts
from vibe_llms.models.attributes import Capability, ModelAttributes


@define
class MessageFields:
    """The fields of a message, as far as they are collected.

    Attributes:
        is_parted: Whether the next text must be separated from the one before it.
    """

    texts: list[str] = attrs.field(factory=list)
    thoughts: list[str] = attrs.field(factory=list)
    images: list[str] = attrs.field(factory=list)
    is_parted: bool = False

    def add_text(self, text: str) -> None:
        """Add a text, after an empty line if it must be separated."""
        if text:
            self.texts += [BOUNDARY] if self.is_parted and any(self.texts) else []
            self.texts.append(text)
            self.is_parted = False

    def compose(self) -> dict[str, Any]:
        """Return the fields; the text is always there, as servers themselves do."""
        fields: dict[str, Any] = {"content": "".join(self.texts)}
        if self.thoughts:
            fields["thinking"] = BOUNDARY.join(self.thoughts)
        if self.images:
            fields["images"] = self.images
        return fields


@define
class PartsWriter:
    """Collects contents into the fields of a message and records losses."""

    attributes: ModelAttributes
    ledger: Ledger

    def add(
        self,
        parts: MessageFields,
        contents: Sequence[ContentWithPath],
        path: str,
        *,
        canister: AnyCanister | None = None,
        is_spoken: bool = False,
    ) -> None:
        """Add the contents of a canister.

        Args:
            canister: The canister.
            is_spoken: Whether it is the model's; only then may it have reasoning.

        Raises:
            CapabilityError: The model is known not to support a medium.
            RequestError: The bytes of a medium are missing.
        """
        is_joined = is_spoken or isinstance(canister, DocumentCanister)  # the model's, or marks
        if contents and not contents[0][1].endswith("[-1]"):  # such as a separate mark
            self._tell_seams([content for content, _ in contents], path)
        if any(parts.texts) and any(isinstance(c, TextualContent) and c.text for c, _ in contents):
            self.ledger.coerce(
                f"{path}.content", "its text is joined to the one before: a message has one text"
            )
        parts.is_parted = True
        for content, place in contents:
            parts.is_parted |= separates_texts(content) or not is_joined
            match content:
                case TextualContent():
                    self._add_text(parts, content, place)
                case RefusalContent():
                    parts.add_text(content.text)
                    parts.is_parted = True
                    self.ledger.coerce(place, "a refusal is sent as text")
                case ReasoningContent() if is_spoken:
                    self._add_reasoning(parts, content, place)
                case ReasoningContent():
                    self.ledger.drop(place, "only messages of the model can contain reasoning")
                case NativeContent():
                    self.ledger.withhold(place, f"this protocol cannot represent {content.kind}")
                case ImageContent() | AudioContent() | VideoContent() | FileContent():
                    self._add_medium(parts, content, place, canister)
                case _:
                    assert_never(content)

    def _tell_seams(self, contents: Sequence[AnyContent], path: str) -> None:
        """Record that texts were joined, and that images lost their positions among them."""
        kinds = [content.type for content in contents if content.type in ("text", "image")]
        if "text" not in kinds:
            return
        behind = kinds[kinds.index("text") :]
        inner = behind[: len(behind) - behind[::-1].index("text")]
        told = ["texts are joined"] if behind.count("text") > 1 else []
        if "image" in inner:
            told.append("the images between them are sent before them")
        elif "image" in behind:
            told.append("the images after them are sent before them")
        if told:
            self.ledger.coerce(f"{path}.content", f"{', and '.join(told)}: a message has one text")

    def _add_text(self, parts: MessageFields, content: TextualContent, path: str) -> None:
        parts.add_text(content.text)
        if content.citations:
            self.ledger.withhold(f"{path}.citations", "messages have no citations in this protocol")
        self.ledger.omit(
            content, path, "mime_type", reason="this protocol has no field for the type of a text"
        )
        self.ledger.omit_native(content.native, path)

    def _add_reasoning(self, parts: MessageFields, content: ReasoningContent, path: str) -> None:
        text = content.text
        if not text and content.summary:
            text = "\n\n".join(content.summary)
            self.ledger.coerce(f"{path}.summary", "the summary is sent as the reasoning")
        elif content.summary:
            self.ledger.withhold(f"{path}.summary", "reasoning has no summary in this protocol")
        if text:
            if parts.thoughts:
                self.ledger.coerce(
                    path, "it is joined to the preceding reasoning: a message has one"
                )
            parts.thoughts.append(text)
        if content.signature is not None:
            self.ledger.withhold(
                f"{path}.signature", "only the vendor that signed it can read the signature"
            )
        self.ledger.omit_native(content.native, path)

    def _add_medium(
        self, parts: MessageFields, content: MediaContent, path: str, canister: AnyCanister | None
    ) -> None:
        words = read_words(content) if isinstance(content, FileContent) else None
        if words is not None and isinstance(content, FileContent):
            parts.add_text(words)
            parts.is_parted = True
            tell_words(content, path, self.ledger)
            return
        ensure_capability(content, self.attributes, path)
        if not admit_type(content, self.attributes, path, canister, self.ledger):
            return
        self.ledger.omit_native(content.native, path)
        takes_audio = self.attributes.access_capability("supports_audio") is Capability.YES
        # The one field for images also accepts audio, for models that support it.
        if isinstance(content, ImageContent) or (isinstance(content, AudioContent) and takes_audio):
            self._add_image(parts, content, path)
            return
        name = content.name or content.mime_type
        self.ledger.drop(
            path, f"{name}: this protocol supports images, but not {content.type} content"
        )

    def _add_image(
        self, parts: MessageFields, content: ImageContent | AudioContent, path: str
    ) -> None:
        if content.data is None and content.content_id is None:
            held = "at a URL" if content.url is not None else "in a vendor's store"
            self.ledger.drop(
                path, f"this protocol sends bytes, but the {content.type} content is {held}"
            )
            return
        parts.images.append(encode_payload(content, path))
        detail = content.detail if isinstance(content, ImageContent) else content.transcript
        if detail is not None:
            field = "detail" if isinstance(content, ImageContent) else "transcript"
            self.ledger.drop(f"{path}.{field}", "only the bytes of an image are sent")
        if content.name is not None:
            self.ledger.drop(f"{path}.name", "only the bytes of an image are sent")
