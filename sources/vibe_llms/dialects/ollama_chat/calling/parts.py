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
    read_file_text,
    report_text_only,
)
from vibe_llms.dialects.payloads import encode_payload
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister
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
from vibe_llms.messages.texts import BOUNDARY, separates_texts
from vibe_llms.models.attributes import Capability, ModelAttributes


@define
class MessageFields:
    """The fields of a message, as far as they are collected.

    Attributes:
        is_separated: Whether the next text must be separated from the previous text.
    """

    texts: list[str] = attrs.field(factory=list)
    thoughts: list[str] = attrs.field(factory=list)
    images: list[str] = attrs.field(factory=list)
    is_separated: bool = False

    def add_text(self, text: str) -> None:
        """Add a text, after an empty line if it must be separated."""
        if text:
            self.texts += [BOUNDARY] if self.is_separated and any(self.texts) else []
            self.texts.append(text)
            self.is_separated = False

    def compose(self) -> dict[str, Any]:
        """Return the fields; the text is always included, as in the messages of servers."""
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
        fields: MessageFields,
        contents: Sequence[ContentWithPath],
        path: str,
        *,
        canister: AnyCanister | None = None,
        is_models: bool = False,
    ) -> None:
        """Add the contents of a canister.

        Args:
            canister: The canister.
            is_models: Whether the canister is the model's; only then it may have reasoning.

        Raises:
            CapabilityError: The model is known not to support a medium.
            RequestError: The bytes of a medium are missing.
        """
        # Texts of the model, and the marks around a document, are joined without a separator.
        is_joined = is_models or isinstance(canister, DocumentCanister)
        if contents and not contents[0][1].endswith("[-1]"):  # not a mark before the contents
            self._report_joined_texts([content for content, _ in contents], path)
        has_text = any(isinstance(each, TextualContent) and each.text for each, _ in contents)
        if any(fields.texts) and has_text:
            self.ledger.coerce(
                f"{path}.content", "its text is joined to the one before: a message has one text"
            )
        fields.is_separated = True
        for content, place in contents:
            fields.is_separated |= separates_texts(content) or not is_joined
            match content:
                case TextualContent():
                    self._add_text(fields, content, place)
                case RefusalContent():
                    fields.add_text(content.text)
                    fields.is_separated = True
                    self.ledger.coerce(place, "a refusal is sent as text")
                case ReasoningContent() if is_models:
                    self._add_reasoning(fields, content, place)
                case ReasoningContent():
                    self.ledger.drop(place, "only messages of the model can contain reasoning")
                case NativeContent():
                    self.ledger.withhold(place, f"this protocol cannot represent {content.kind}")
                case ImageContent() | AudioContent() | VideoContent() | FileContent():
                    self._add_medium(fields, content, place, canister)
                case CacheHint():
                    self.ledger.omit_hint(place)
                case _:
                    assert_never(content)

    def _report_joined_texts(self, contents: Sequence[AnyContent], path: str) -> None:
        """Record that texts were joined, and that images lost their positions among them."""
        kinds = [content.type for content in contents if content.type in ("text", "image")]
        if "text" not in kinds:
            return
        first = kinds.index("text")
        last = len(kinds) - 1 - kinds[::-1].index("text")
        changes = ["texts are joined"] if kinds.count("text") > 1 else []
        if "image" in kinds[first:last]:
            changes.append("the images between them are sent before them")
        elif "image" in kinds[last:]:
            changes.append("the images after them are sent before them")
        if changes:
            self.ledger.coerce(
                f"{path}.content", f"{', and '.join(changes)}: a message has one text"
            )

    def _add_text(self, fields: MessageFields, content: TextualContent, path: str) -> None:
        fields.add_text(content.text)
        if content.citations:
            self.ledger.withhold(f"{path}.citations", "messages have no citations in this protocol")
        self.ledger.omit(
            content, path, "mime_type", reason="this protocol has no field for the type of a text"
        )
        self.ledger.omit_native(content.native, path)

    def _add_reasoning(self, fields: MessageFields, content: ReasoningContent, path: str) -> None:
        text = content.text
        if not text and content.summary:
            text = "\n\n".join(content.summary)
            self.ledger.coerce(f"{path}.summary", "the summary is sent as the reasoning")
        elif content.summary:
            self.ledger.withhold(f"{path}.summary", "reasoning has no summary in this protocol")
        if text:
            if fields.thoughts:
                self.ledger.coerce(
                    path, "it is joined to the preceding reasoning: a message has one"
                )
            fields.thoughts.append(text)
        if content.signature is not None:
            self.ledger.withhold(
                f"{path}.signature", "only the vendor that signed it can read the signature"
            )
        self.ledger.omit_native(content.native, path)

    def _add_medium(
        self, fields: MessageFields, content: MediaContent, path: str, canister: AnyCanister | None
    ) -> None:
        text = read_file_text(content) if isinstance(content, FileContent) else None
        if text is not None and isinstance(content, FileContent):
            fields.add_text(text)
            fields.is_separated = True
            report_text_only(content, path, self.ledger)
            return
        ensure_capability(content, self.attributes, path)
        if not admit_type(content, self.attributes, path, canister, self.ledger):
            return
        self.ledger.omit_native(content.native, path)
        takes_audio = self.attributes.access_capability("supports_audio") is Capability.YES
        # The one field for images also accepts audio, for models that support it.
        if isinstance(content, ImageContent) or (isinstance(content, AudioContent) and takes_audio):
            self._add_image(fields, content, path)
            return
        name = content.name or content.mime_type
        self.ledger.drop(
            path, f"{name}: this protocol supports images, but not {content.type} content"
        )

    def _add_image(
        self, fields: MessageFields, content: ImageContent | AudioContent, path: str
    ) -> None:
        if content.data is None and content.content_id is None:
            place = "at a URL" if content.url is not None else "in a vendor's store"
            self.ledger.drop(
                path, f"this protocol sends bytes, but the {content.type} content is {place}"
            )
            return
        fields.images.append(encode_payload(content, path))
        detail = content.detail if isinstance(content, ImageContent) else content.transcript
        if detail is not None:
            field = "detail" if isinstance(content, ImageContent) else "transcript"
            self.ledger.drop(f"{path}.{field}", "only the bytes of an image are sent")
        if content.name is not None:
            self.ledger.drop(f"{path}.name", "only the bytes of an image are sent")
