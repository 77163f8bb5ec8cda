"""Separators between texts in protocols with one text per message, also in streams.

In some protocols a message has only one text and one reasoning. Consecutive pieces are joined
directly. An empty line separates texts if there is another content between them. Streamed and
complete answers give equal results.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import attrs

from vibe_llms.events.stream import ContentStartedEvent
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.texts import BOUNDARY

_TEXTS: Final = frozenset({"text"})


@define(eq=False)
class GrowingContent:
    """A content in progress.

    Attributes:
        starts_canister: Whether the content before it belongs to another canister.
        last_channel: The channel of its last piece; empty before the first piece.
    """

    start: ContentStartedEvent
    starts_canister: bool = attrs.field(default=False, kw_only=True)
    last_channel: str = attrs.field(default="", kw_only=True)


@define
class Separators:
    """Tracks the contents of a response, to find the separators between them.

    Attributes:
        kinds: The kinds of contents that become the text of the message.
    """

    kinds: Set[str] = _TEXTS
    _contents: list[GrowingContent] = attrs.field(factory=list)
    _has_text: bool = False
    _has_reasoning: bool = False

    def add(self, content: GrowingContent) -> None:
        """Add a content that begins."""
        if self._contents:
            last, start = self._contents[-1].start, content.start
            is_own_canister = last.kind in ("invocation", "result")
            content.starts_canister = is_own_canister or last.group != start.group
        self._contents.append(content)

    def find_before_text(self, content: GrowingContent) -> str:
        """Return the separator before the next piece of a text, and record that there is a text."""
        if content.last_channel:
            return ""
        has_text, self._has_text = self._has_text, True
        return BOUNDARY if has_text and self._is_separated(content) else ""

    def find_before_reasoning(self, content: GrowingContent, channel: str) -> str:
        """Return the separator before the next piece of reasoning, and record the reasoning."""
        has_reasoning, self._has_reasoning = self._has_reasoning, True
        return BOUNDARY if has_reasoning and content.last_channel != channel else ""

    def _is_separated(self, content: GrowingContent) -> bool:
        """Return whether there is another content between a text and the previous text."""
        is_separated = content.starts_canister or content.start.kind != "text"
        before = self._contents[: self._contents.index(content)]
        for each in reversed(before):
            kind = each.start.kind
            if kind in self.kinds and each.last_channel:
                return is_separated or kind != "text"
            is_separated = is_separated or each.starts_canister or kind not in ("text", "native")
        return False
