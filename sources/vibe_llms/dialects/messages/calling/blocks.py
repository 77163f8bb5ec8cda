"""Translation of contents to blocks of a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, assert_never

from vibe_llms.dialects.cache_hints import UNMARKABLE, add_cache_control
from vibe_llms.dialects.citations import nativize_citations
from vibe_llms.dialects.extras import merge, read_native
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import admit_medium, ensure_capability
from vibe_llms.dialects.messages.calling.media import nativize_document, nativize_image
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AnyCanister, AssistantCanister
from vibe_llms.messages.contents import (
    AnyContent,
    AudioContent,
    CacheHint,
    FileContent,
    ImageContent,
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
    VideoContent,
)
from vibe_llms.models.attributes import ModelAttributes

Block = dict[str, Any]

_UNMARKABLE_BLOCKS: Final = ("thinking", "redacted_thinking")
"""Blocks that cannot have a cache mark:
https://platform.claude.com/docs/en/build-with-claude/prompt-caching.
"""


@define(kw_only=True)
class BlocksWriter:
    """Writes contents as blocks and records losses.

    Attributes:
        attributes: The model's attributes; ``None`` for a response.
        is_answer: Whether an answer is written. It may have empty texts and unsigned reasoning,
            which vendors reject in requests.
    """

    ledger: Ledger
    attributes: ModelAttributes | None = None
    is_answer: bool = False

    def write(
        self, contents: Sequence[AnyContent], path: str, canister: AnyCanister | None
    ) -> list[Block]:
        """Return the blocks of a canister's contents.

        Raises:
            CapabilityError: The model is known not to support a content.
            RequestError: The bytes of a medium are missing.
        """
        blocks: list[Block] = []
        for index, content in enumerate(contents):
            place = f"{path}.content[{index}]"
            if type(content) is CacheHint:
                self.mark_last(blocks, content, place)
                continue
            block = self.write_content(content, place, canister)
            if block is not None:
                blocks.append(block)
        return blocks

    def mark_last(self, blocks: list[Block], hint: CacheHint, path: str) -> None:
        """Add the mark of a cache hint to the last block."""
        if not blocks or blocks[-1].get("type") in _UNMARKABLE_BLOCKS:
            self.ledger.omit_hint(path, UNMARKABLE)
        else:
            blocks[-1] = add_cache_control(blocks[-1], hint, path, self.ledger)

    def write_content(
        self, content: AnyContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        """Return the block of one content; ``None`` if it is not sent."""
        is_from_model = isinstance(canister, AssistantCanister)
        write = self._write_model_content if is_from_model else self._write_other_content
        return write(content, path, canister)

    def write_texts(
        self, contents: Sequence[AnyContent], path: str, canister: AnyCanister | None
    ) -> list[Block]:
        """Return the blocks of instructions, which have no media."""
        blocks: list[Block] = []
        for index, content in enumerate(contents):
            content_path = f"{path}.content[{index}]"
            if type(content) is CacheHint:
                self.mark_last(blocks, content, content_path)
                continue
            if self._ensure_instruction(content, content_path):
                block = self._write_other_content(content, content_path, canister)
                if block:
                    blocks.append(block)
        return blocks

    def _ensure_instruction(self, content: AnyContent, path: str) -> bool:
        if isinstance(content, (TextualContent, NativeContent)):
            return True
        self.ledger.drop(path, f"instructions cannot contain {content.type} content")
        return False

    def _write_other_content(
        self, content: AnyContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        """Write a content that does not come from the model."""
        match content:
            case TextualContent():
                if not self.is_answer and not content.text.strip():
                    self.ledger.drop(path, "the vendor rejects a text without visible characters")
                    return None
                return self._write_text(content, path, canister)
            case ImageContent() | FileContent():
                medium = admit_medium(content, self.attributes, path, canister, self.ledger)
                match medium:
                    case ImageContent():
                        return nativize_image(medium, path, canister, self.ledger)
                    case FileContent():
                        return nativize_document(medium, path, canister, self.ledger)
                return None
            case AudioContent() | VideoContent():
                return self._write_unsupported_medium(content, path)
            case NativeContent():
                return self._write_native(content, path, canister)
            case ReasoningContent():
                self.ledger.drop(path, "only messages of the model can contain reasoning")
                return None
            case RefusalContent():
                return self._write_refusal(content, path, canister)
            case CacheHint():
                self.ledger.omit_hint(path, UNMARKABLE)
                return None
            case _:
                assert_never(content)

    def _write_model_content(
        self, content: AnyContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        """Write a content that comes from the model."""
        match content:
            case TextualContent():
                return self._write_text(content, path, canister)
            case ReasoningContent():
                return self._write_reasoning(content, path, canister)
            case NativeContent():
                return self._write_native(content, path, canister)
            case RefusalContent():
                return self._write_refusal(content, path, canister)
            case FileContent() if self._is_upload(content, path, canister):
                return nativize_document(content, path, canister, self.ledger)
            case _:
                reason = f"messages of the model cannot contain {content.type} content"
                self.ledger.withhold(path, reason)
                return None

    def _write_text(
        self,
        content: TextualContent,
        path: str,
        canister: AnyCanister | None,
    ) -> Block | None:
        if not self.is_answer and not content.text:
            self.ledger.drop(path, "the vendor rejects an empty text")
            return None
        if content.mime_type != "text/plain":
            self.ledger.drop(
                f"{path}.mime_type", "this protocol has no field for the type of a text"
            )
        block: Block = {"type": "text", "text": content.text}
        if content.citations and (citations := self._write_citations(content, path, canister)):
            block["citations"] = citations
        return merge(block, self.ledger.read_sendable(content.native, path, canister))

    def _write_citations(
        self, content: TextualContent, path: str, canister: AnyCanister | None
    ) -> list[Block]:
        return nativize_citations(content.citations, path, canister, self.ledger)

    def _write_refusal(
        self, content: RefusalContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        self.ledger.coerce(path, "a refusal is sent as text")
        text = TextualContent(content.text, native=content.native)
        return self._write_text(text, path, canister)

    def _write_reasoning(
        self, content: ReasoningContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        """Write reasoning that this vendor signed; it rejects any other."""
        if not self.ledger.admits(content.native, canister):
            self.ledger.withhold(path, "reasoning is sent only to the vendor that signed it")
            return None
        extras = self.ledger.read_sendable(content.native, path, canister)
        if extras.get("type") == "redacted_thinking":
            reason = "redacted reasoning has no text"
            self.ledger.omit(content, path, "text", "summary", reason=reason)
            return {**extras, "data": content.signature or ""}
        if content.signature is None and not self.is_answer:
            self.ledger.withhold(path, "the vendor rejects reasoning without its signature")
            return None
        if content.summary:
            self.ledger.withhold(f"{path}.summary", "reasoning has no summary in this protocol")
        block = {"type": "thinking", "thinking": content.text, "signature": content.signature or ""}
        return merge(block, extras)

    def _write_native(
        self, content: NativeContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        if not self.ledger.admits(content.native, canister):
            reason = f"{content.kind} belongs to another vendor or protocol"
            self.ledger.withhold(path, reason)
            return None
        return read_native(content.native, path)

    def _is_upload(self, content: FileContent, path: str, canister: AnyCanister | None) -> bool:
        """Return whether a file was uploaded to the container of the vendor's tools."""
        if not self.ledger.admits(content.native, canister):
            return False
        return bool(read_native(content.native, path).get("type") == "container_upload")

    def _write_unsupported_medium(
        self, content: AudioContent | VideoContent, path: str
    ) -> Block | None:
        ensure_capability(content, self.attributes, path)
        if isinstance(content, AudioContent) and content.transcript:
            self.ledger.coerce(path, "audio is sent as its transcript")
            return {"type": "text", "text": content.transcript}
        self.ledger.drop(path, f"this protocol cannot represent {content.type} content")
        return None
