"""What parts texts that stand in one: whoever reads a stream is not to run two of them together.

In some protocols a message has one text and one reasoning. As in a whole answer, what a model says
in one go joins directly, and an empty line parts what it says before and after anything else.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Final

import attrs

from vibe_llms.events.stream import ContentStartedEvent
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.views import BOUNDARY

_TEXTS: Final = frozenset({"text"})


@define(eq=False)
class GrowingContent:
    """A content on its way.

    Attributes:
        is_apart: Whether it stands in another canister than the one before it.
        spoken: The channel on which it went on last; empty as long as it has said nothing.
    """

    start: ContentStartedEvent
    is_apart: bool = attrs.field(default=False, kw_only=True)
    spoken: str = attrs.field(default="", kw_only=True)


@define
class Gaps:
    """Knows the contents of a response, in order, and what has to stand between them.

    Attributes:
        kinds: Of the contents that go into the text of the message.
    """

    kinds: Set[str] = _TEXTS
    _contents: list[GrowingContent] = attrs.field(factory=list)
    _has_text: bool = False
    _has_thought: bool = False

    def add(self, content: GrowingContent) -> None:
        """Takes a content that begins."""
        if self._contents:
            last, start = self._contents[-1].start, content.start
            is_own = last.kind in ("invocation", "result")
            content.is_apart = is_own or last.group != start.group
        self._contents.append(content)

    def find_before_text(self, content: GrowingContent) -> str:
        """Returns what has to stand before the next piece of a text."""
        if content.spoken:
            return ""
        has_text, self._has_text = self._has_text, True
        return BOUNDARY if has_text and self._is_parted(content) else ""

    def find_before_thought(self, content: GrowingContent, channel: str) -> str:
        """Returns what has to stand before the next piece of reasoning."""
        has_thought, self._has_thought = self._has_thought, True
        return BOUNDARY if has_thought and content.spoken != channel else ""

    def _is_parted(self, content: GrowingContent) -> bool:
        """Tells whether anything stands between a text and the one before it."""
        is_parted = content.is_apart or content.start.kind != "text"
        before = self._contents[: self._contents.index(content)]
        for each in reversed(before):
            kind = each.start.kind
            if kind in self.kinds and each.spoken:
                return is_parted or kind != "text"
            is_parted = is_parted or each.is_apart or kind not in ("text", "native")
        return False
