"""Translation of contents to blocks of a message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

import msgspec

from vibe_llms.dialects.bedrock.calling.caching import write_cache_point
from vibe_llms.dialects.bedrock.calling.content_blocks import CITED, JSON, REDACTED
from vibe_llms.dialects.bedrock.calling.media import nativize_medium
from vibe_llms.dialects.citations import nativize_citations
from vibe_llms.dialects.extras import merge, read_native
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.media_types import admit_medium
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_errors import UNREADABLE
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


@define(kw_only=True)
class BlocksWriter:
    """Writes contents as blocks and records losses.

    Attributes:
        attributes: The model's attributes; ``None`` for a response.
        is_answer: Whether an answer is written. It may have empty texts, media and unsigned
            reasoning, which vendors reject in messages of the model.
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
            blocks += self.write_content(content, f"{path}.content[{index}]", canister)
        return blocks

    def write_content(
        self, content: AnyContent, path: str, canister: AnyCanister | None
    ) -> list[Block]:
        """Return the block of one content; none if it is not sent."""
        is_from_model = isinstance(canister, AssistantCanister)
        if is_from_model:
            block = self._write_model_content(content, path, canister)
        else:
            block = self._write_other_content(content, path, canister)
        return [] if block is None else [block]

    def write_texts(
        self, contents: Sequence[AnyContent], path: str, canister: AnyCanister | None
    ) -> list[Block]:
        """Return the blocks of instructions, which have no media."""
        blocks: list[Block] = []
        for index, content in enumerate(contents):
            content_path = f"{path}.content[{index}]"
            if isinstance(content, (TextualContent, NativeContent, CacheHint)):
                blocks += self.write_content(content, content_path, canister)
            else:
                self.ledger.drop(
                    content_path, f"instructions cannot contain {content.type} content"
                )
        return blocks

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
            case ImageContent() | FileContent() | AudioContent() | VideoContent():
                medium = admit_medium(content, self.attributes, path, canister, self.ledger)
                if medium is None:
                    return None
                return nativize_medium(medium, path, canister, self.ledger)
            case NativeContent():
                return self._write_native(content, path, canister)
            case ReasoningContent():
                self.ledger.drop(path, "only messages of the model can contain reasoning")
                return None
            case RefusalContent():
                return self._write_refusal(content, path, canister)
            case CacheHint():
                return write_cache_point(content, path, self.ledger)
            case _:
                assert_never(content)

    def _write_model_content(
        self, content: AnyContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        """Write a content that comes from the model."""
        match content:
            case TextualContent():
                if not self.is_answer and not content.text.strip():
                    self.ledger.drop(path, "the vendor rejects a text without visible characters")
                    return None
                return self._write_text(content, path, canister)
            case ReasoningContent():
                return self._write_reasoning(content, path, canister)
            case NativeContent():
                return self._write_native(content, path, canister)
            case RefusalContent():
                return self._write_refusal(content, path, canister)
            case CacheHint() if self.is_answer:
                self.ledger.omit_hint(path)
                return None
            case CacheHint():
                return write_cache_point(content, path, self.ledger)
            case _ if self.is_answer:
                return nativize_medium(content, path, canister, self.ledger)
            case _:
                reason = f"messages of the model cannot contain {content.type} content"
                self.ledger.withhold(path, reason)
                return None

    def _write_text(
        self, content: TextualContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        if content.mime_type != "text/plain":
            self.ledger.drop(
                f"{path}.mime_type", "this protocol has no field for the type of a text"
            )
        extras = self.ledger.read_sendable(content.native, path, canister)
        if extras.get(JSON):
            try:
                return {"json": msgspec.json.decode(content.text)}
            except UNREADABLE:
                pass  # edited in the meantime
        citations = nativize_citations(content.citations, path, canister, self.ledger)
        block: Block = {"text": content.text}
        if citations or extras.get(CITED):
            block = {"citationsContent": {"content": [block], "citations": citations}}
        return merge(block, extras)

    def _write_refusal(
        self, content: RefusalContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        if not self.is_answer and not content.text.strip():
            self.ledger.drop(path, "the vendor rejects a text without visible characters")
            return None
        self.ledger.coerce(path, "a refusal is sent as text")
        text = TextualContent(content.text, native=content.native)
        return self._write_text(text, path, canister)

    def _write_reasoning(
        self, content: ReasoningContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        """Write reasoning that this vendor's models signed; they reject any other."""
        if not self.ledger.admits(content.native, canister):
            self.ledger.withhold(path, "reasoning is sent only to the vendor that signed it")
            return None
        extras = self.ledger.read_sendable(content.native, path, canister)
        if extras.get(REDACTED):
            reason = "redacted reasoning has no text"
            self.ledger.omit(content, path, "text", "summary", reason=reason)
            redacted: Block = {"redactedContent": content.signature or ""}
            return {"reasoningContent": merge(redacted, extras)}
        if content.signature is None and not self.is_answer:
            self.ledger.withhold(path, "the vendor rejects reasoning without its signature")
            return None
        if content.summary:
            self.ledger.withhold(f"{path}.summary", "reasoning has no summary in this protocol")
        signature = {} if content.signature is None else {"signature": content.signature}
        return {
            "reasoningContent": {
                "reasoningText": merge({"text": content.text, **signature}, extras)
            }
        }

    def _write_native(
        self, content: NativeContent, path: str, canister: AnyCanister | None
    ) -> Block | None:
        if not self.ledger.admits(content.native, canister):
            reason = f"{content.kind} belongs to another vendor or protocol"
            self.ledger.withhold(path, reason)
            return None
        return read_native(content.native, path)
