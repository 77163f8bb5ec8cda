"""Budgets for rendering a prompt: characters and time.

A template may come from a stranger. Its output is counted before it is created, so that nothing has
to be interrupted and nothing large exists even for a moment.
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

_FIRST = 0xF0000  # in a plane of Unicode that is for private use only
_PRIVATE = re.compile("[\U000f0000-\U000ffffd]")
_EDGE = chr(_FIRST)


def _hide(number: int) -> str:
    return "".join(chr(_FIRST + ord(digit)) for digit in str(number))


@define(eq=False)
class ContentMarks:
    """The contents that one rendering places.

    Attributes:
        contents: In the order in which they were printed.
        nonce: A new mark each time, so that no value can contain it.
    """

    contents: list[AnyContent] = attrs.field(factory=list)
    nonce: str = attrs.field(factory=lambda: _hide(secrets.randbits(64)))

    def add(self, content: AnyContent) -> str:
        """Return the mark that stands for a content."""
        self.contents.append(content)
        return f"{_EDGE}{self.nonce}{_EDGE}{_hide(len(self.contents) - 1)}{_EDGE}"

    def cut(self, text: str) -> tuple[AnyContent, ...] | None:
        """Split a text into contents; blank texts between them are left out.

        Returns:
            ``None`` if the template has damaged a mark.
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
"""Factor for the characters of intermediate texts, relative to those of the whole prompt."""


@define(eq=False)
class RenderingBudget:
    """Remaining budget of one rendering.

    Attributes:
        limits: ``prompt_characters`` limits each text, and eightfold all intermediate texts;
            ``prompt_seconds`` limits the processor time.
        content_marks: Marks of the contents that are placed in the prompt.
    """

    limits: Limits
    content_marks: ContentMarks = attrs.field(factory=ContentMarks)
    _room: int = attrs.field(init=False)
    _deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._room = _ROOM * self.limits.prompt_characters
        # Time of this thread alone: the template does not pay for other threads.
        self._deadline = time.thread_time() + self.limits.prompt_seconds

    def tick(self) -> None:
        """End the rendering when its time is used up."""
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
        """Count a text of so many characters, or so many values, before it is created."""
        self.tick()
        # One more, so that a loop of empty values ends, too.
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
        """Count everything that a value contains, as often as it contains it.

        Args:
            is_printed: The value is about to be printed: it must contain nothing undefined.
        """
        # Not recursive: values may nest deeper than Python's call stack, or contain themselves.
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
                str(each)  # raises an error that names it
            else:
                self.admit(1)

    def count(self, values: Iterable[Any], size: int) -> Iterable[Any]:
        """Yield the values of a loop, each of which creates a text of so many characters."""
        for value in values:
            self.admit(size)
            yield value


BUDGET: Final[ContextVar[RenderingBudget]] = ContextVar("BUDGET")
"""Budget of the current rendering in this thread or task."""
