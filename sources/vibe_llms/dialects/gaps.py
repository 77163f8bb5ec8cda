"""Separators between texts in protocols with one text per message, also in streams.

In some protocols a message has one text and one reasoning. As in a complete answer, consecutive
pieces are joined directly, and an empty line separates texts before and after another content.
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
        is_apart: Whether it is in another canister than the one before it.
        spoken: The channel of its last piece; empty before the first one.
    """

    start: ContentStartedEvent
    is_apart: bool = attrs.field(default=False, kw_only=True)
    spoken: str = attrs.field(default="", kw_only=True)


@define
class Gaps:
    """Tracks the contents of a response, to find the separators between them.

    Attributes:
        kinds: Kinds of contents that become the text of the message.
    """

    kinds: Set[str] = _TEXTS
    _contents: list[GrowingContent] = attrs.field(factory=list)
    _has_text: bool = False
    _has_thought: bool = False

    def add(self, content: GrowingContent) -> None:
        """Add a content that begins."""
        if self._contents:
            last, start = self._contents[-1].start, content.start
            is_own = last.kind in ("invocation", "result")
            content.is_apart = is_own or last.group != start.group
        self._contents.append(content)

    def find_before_text(self, content: GrowingContent) -> str:
        """Return the separator before the next piece of a text."""
        if content.spoken:
            return ""
        has_text, self._has_text = self._has_text, True
        return BOUNDARY if has_text and self._is_parted(content) else ""

    def find_before_thought(self, content: GrowingContent, channel: str) -> str:
        """Return the separator before the next piece of reasoning."""
        has_thought, self._has_thought = self._has_thought, True
        return BOUNDARY if has_thought and content.spoken != channel else ""

    def _is_parted(self, content: GrowingContent) -> bool:
        """Return whether there is another content between a text and the one before it."""
        is_parted = content.is_apart or content.start.kind != "text"
        before = self._contents[: self._contents.index(content)]
        for each in reversed(before):
            kind = each.start.kind
            if kind in self.kinds and each.spoken:
                return is_parted or kind != "text"
            is_parted = is_parted or each.is_apart or kind not in ("text", "native")
        return False
