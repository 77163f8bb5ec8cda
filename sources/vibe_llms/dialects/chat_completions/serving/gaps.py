"""What parts texts that stand in one: whoever reads a stream is not to run two of them together.

A message has one text and one reasoning. As in a whole answer, what a model says in one go joins
directly, and an empty line parts what it says before and after anything else.
"""

from __future__ import annotations

from typing import Any

import attrs

from vibe_llms.dialects.chat_completions.serving.forms import Form, is_plain, is_told
from vibe_llms.events.stream import ContentStartedEvent
from vibe_llms.messages.views import BOUNDARY
from vibe_llms.values import define


@define(eq=False)
class GrowingContent:
    """A content on its way.

    Attributes:
        kept: What it has of its vendor, where that spoke this protocol.
        place: Of an invocation, among the calls of the message.
        is_apart: Whether it stands in another canister than the one before it.
        spoken: The channel on which it went on last; empty as long as it has said nothing.
        seal: What has gone out of its signature.
    """

    start: ContentStartedEvent
    kept: dict[str, Any]
    place: int
    is_apart: bool
    spoken: str = ""
    seal: str = ""


@define
class Gaps:
    """Knows the contents of a response, in order, and what has to stand between them.

    Attributes:
        is_listed: Whether the message's content is a list of parts: these are apart by themselves.
    """

    contents: dict[int, GrowingContent] = attrs.field(factory=dict)
    is_listed: bool = False
    _has_text: bool = False
    _has_thought: bool = False

    def add(self, start: ContentStartedEvent, kept: dict[str, Any], place: int) -> GrowingContent:
        """Takes a content that begins."""
        last = next(reversed(self.contents.values()), None)
        is_apart = last is not None and (
            last.start.kind in ("invocation", "result") or last.start.group != start.group
        )
        content = GrowingContent(start, kept, place, is_apart)
        self.contents[start.index] = content
        return content

    def find(self, content: GrowingContent, channel: str, form: Form) -> str:
        """Returns what has to stand before the next piece of a content."""
        if is_told(form):
            gap = BOUNDARY if self._has_thought and content.spoken != channel else ""
            self._has_thought = True
            return gap
        if content.start.kind != "text" or content.spoken:
            return ""
        self.is_listed = self.is_listed or not is_plain(form)
        has_text, self._has_text = self._has_text, True
        if self.is_listed or not has_text:
            return ""
        return BOUNDARY if self._is_parted(content) else ""

    def _is_parted(self, content: GrowingContent) -> bool:
        """Tells whether anything stands between a text and the one before it."""
        contents = list(self.contents.values())
        is_parted = content.is_apart
        for each in reversed(contents[: contents.index(content)]):
            if each.start.kind == "text" and each.spoken:
                return is_parted
            is_parted = is_parted or each.is_apart or each.start.kind not in ("text", "native")
        return False
