"""What rendering a prompt may use up: characters, and time.

A template may come from a stranger. Whatever it makes is counted before it is made, so that
nothing has to be interrupted and nothing large exists even for a moment.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import attrs
from jinja2 import Undefined

from vibe_llms.exceptions import LimitError, Stage
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.contents import AnyContent, TextualContent

_FIRST = 0xF0000  # of a plane of Unicode that is for private use as a whole
_PRIVATE = re.compile("[\U000f0000-\U000ffffd]")
_EDGE = chr(_FIRST)


def _hide(number: int) -> str:
    return "".join(chr(_FIRST + ord(digit)) for digit in str(number))


@define(eq=False)
class Placements:
    """The contents that one rendering places.

    Attributes:
        contents: In the order in which they were printed.
        nonce: What no value can hold, since it is new each time.
    """

    contents: list[AnyContent] = attrs.field(factory=list)
    nonce: str = attrs.field(factory=lambda: _hide(secrets.randbits(64)))

    def place(self, content: AnyContent) -> str:
        """Returns the mark in the place of a content."""
        self.contents.append(content)
        return f"{_EDGE}{self.nonce}{_EDGE}{_hide(len(self.contents) - 1)}{_EDGE}"

    def cut(self, text: str) -> tuple[AnyContent, ...] | None:
        """Cuts a text into contents; blank texts between them are left out.

        Returns:
            Nothing, where a mark has not survived what the template did with it.
        """
        if not self.contents:
            return (TextualContent(text),)
        marks = {_hide(index): each for index, each in enumerate(self.contents)}
        contents: list[AnyContent] = []
        parts = re.split(f"{_EDGE}{self.nonce}{_EDGE}([^{_EDGE}]+){_EDGE}", text)
        for index, part in enumerate(parts):
            if index % 2:
                contents.append(marks[part])
            elif _PRIVATE.search(part):
                return None
            elif part.strip():
                contents.append(TextualContent(part))
        return tuple(contents)


_ROOM: Final = 8
"""How many times the characters of a whole prompt may be made on the way to it."""


@define(eq=False)
class RenderingBudget:
    """What is left of what one rendering may use.

    Attributes:
        limits: ``prompt_characters`` bounds each text, and eightfold all that is made on the
            way; ``prompt_seconds`` bounds the time of the processor.
        placements: The contents that find a place in the prompt.
    """

    limits: Limits
    placements: Placements = attrs.field(factory=Placements)
    _room: int = attrs.field(init=False)
    _deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._room = _ROOM * self.limits.prompt_characters
        # Of this thread alone: what others do meanwhile is not the template's fault.
        self._deadline = time.thread_time() + self.limits.prompt_seconds

    def tick(self) -> None:
        """Ends the rendering where its time is over."""
        if time.thread_time() > self._deadline:
            seconds = self.limits.prompt_seconds
            raise LimitError(
                limit="prompt_seconds",
                value=seconds,
                detail=f"Rendering the prompt took more than {seconds} seconds (prompt_seconds).",
                remedy="Simplify the template's loops.",
                stage=Stage.EXECUTE,
            )

    def admit(self, size: int) -> None:
        """Counts what is about to be made: a text of so many characters, or so many values."""
        self.tick()
        # One more, so that what is empty has an end, too.
        self._room -= size + 1
        if size > self.limits.prompt_characters or self._room < 0:
            most = self.limits.prompt_characters
            raise LimitError(
                limit="prompt_characters",
                value=most,
                detail=f"The prompt has more than {most:_} characters (prompt_characters).",
                remedy="Shorten the values, or raise the limit.",
                stage=Stage.EXECUTE,
            )

    def weigh(self, value: Any, *, is_printed: bool = False) -> None:
        """Counts all that a value holds, as often as it holds it.

        Args:
            is_printed: It is about to become a text: nothing undefined may be among it.
        """
        # Not recursive: values may nest deeper than Python calls, or hold themselves.
        heap = [value]
        while heap:
            each = heap.pop()
            if isinstance(each, (str, bytes)):
                self.admit(len(each))
            elif isinstance(each, Mapping):
                self.admit(len(each))
                heap.extend(each.keys())
                heap.extend(each.values())
            elif isinstance(each, (list, tuple, set, frozenset)):
                self.admit(len(each))
                heap.extend(each)
            elif is_printed and isinstance(each, Undefined):
                str(each)  # raises, and says which
            else:
                self.admit(1)

    def count(self, values: Iterable[Any], size: int) -> Iterable[Any]:
        """Yields the values of a loop, each of which makes a text of so many characters."""
        for value in values:
            self.admit(size)
            yield value


BUDGET: Final[ContextVar[RenderingBudget]] = ContextVar("BUDGET")
"""The budget of the rendering that goes on in this thread or task."""
