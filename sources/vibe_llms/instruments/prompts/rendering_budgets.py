"""Budgets for rendering a prompt: characters and time.

Templates may be untrusted. The size of an output is counted before the output is created, so that a
large text never exists, even for a moment.
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

_PRIVATE_START = 0xF0000  # the start of a Unicode plane for private use
_PRIVATE_CHARACTERS = re.compile("[\U000f0000-\U000ffffd]")
_DELIMITER = chr(_PRIVATE_START)


def _encode_privately(number: int) -> str:
    """Write the digits of a number as characters for private use."""
    return "".join(chr(_PRIVATE_START + ord(digit)) for digit in str(number))


@define(eq=False)
class ContentMarks:
    """Placeholders for the contents that a template prints, such as images.

    Attributes:
        contents: The contents, in the order in which they were printed.
        nonce: A random part of each placeholder, so that no value can contain one.
    """

    contents: list[AnyContent] = attrs.field(factory=list)
    nonce: str = attrs.field(factory=lambda: _encode_privately(secrets.randbits(64)))

    def add(self, content: AnyContent) -> str:
        """Return the placeholder of a content."""
        self.contents.append(content)
        number = _encode_privately(len(self.contents) - 1)
        return f"{_DELIMITER}{self.nonce}{_DELIMITER}{number}{_DELIMITER}"

    def cut(self, text: str) -> tuple[AnyContent, ...] | None:
        """Replace the placeholders in a text by their contents; blank texts are omitted.

        Returns:
            ``None`` if the template has changed a placeholder.
        """
        if not self.contents:
            return (TextualContent(text),)
        marks = {_encode_privately(index): each for index, each in enumerate(self.contents)}
        contents: list[AnyContent] = []
        parts = re.split(
            f"{_DELIMITER}{self.nonce}{_DELIMITER}([^{_DELIMITER}]+){_DELIMITER}", text
        )
        for index, part in enumerate(parts):
            if index % 2:  # the number in a placeholder
                contents.append(marks[part])
            elif _PRIVATE_CHARACTERS.search(part):
                return None
            elif part.strip():
                contents.append(TextualContent(part))
        return tuple(contents)


_INTERMEDIATE_FACTOR: Final = 8
"""Maximum characters of all intermediate texts, as a multiple of those of the prompt."""


@define(eq=False)
class RenderingBudget:
    """Remaining budget of one rendering.

    Attributes:
        limits: ``prompt_characters`` limits each text, and its eightfold limits all intermediate
            texts together; ``prompt_seconds`` limits the processor time.
        content_marks: Placeholders of the contents that are printed.
    """

    limits: Limits
    content_marks: ContentMarks = attrs.field(factory=ContentMarks)
    _remaining: int = attrs.field(init=False)
    _deadline: float = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._remaining = _INTERMEDIATE_FACTOR * self.limits.prompt_characters
        # The processor time of this thread: the template is not charged for other threads.
        self._deadline = time.thread_time() + self.limits.prompt_seconds

    def check_time(self) -> None:
        """Raise LimitError if the time is used up."""
        if time.thread_time() > self._deadline:
            seconds = self.limits.prompt_seconds
            raise LimitError(
                limit="prompt_seconds",
                value=seconds,
                detail=f"Rendering the prompt took more than {seconds} seconds (prompt_seconds).",
                remedy="Simplify the template's loops.",
                stage=Stage.EXECUTE,
            )

    def reserve(self, size: int) -> None:
        """Count characters or values before they are created. Raises LimitError."""
        self.check_time()
        # One is added, so that a loop of empty values ends, too.
        self._remaining -= size + 1
        if size > self.limits.prompt_characters or self._remaining < 0:
            limit = self.limits.prompt_characters
            raise LimitError(
                limit="prompt_characters",
                value=limit,
                detail=f"The prompt has more than {limit:_} characters (prompt_characters).",
                remedy="Shorten the values, or raise the limit.",
                stage=Stage.EXECUTE,
            )

    def count_contents(self, value: Any, *, is_printed: bool = False) -> None:
        """Count everything that a value contains; repeated parts are counted each time.

        Args:
            is_printed: The value is about to be printed: it must contain nothing undefined.
        """
        # Not recursive: values may nest deeper than Python's call stack, or contain themselves.
        pending = [value]
        while pending:
            each = pending.pop()
            if isinstance(each, (str, bytes)):
                self.reserve(len(each))
            elif isinstance(each, Mapping):
                self.reserve(len(each))
                pending.extend(each.keys())
                pending.extend(each.values())
            elif isinstance(each, (list, tuple, set, frozenset)):
                self.reserve(len(each))
                pending.extend(each)
            elif is_printed and isinstance(each, Undefined):
                str(each)  # raises an error that names it
            else:
                self.reserve(1)

    def count_loop(self, values: Iterable[Any], size: int) -> Iterable[Any]:
        """Yield the values of a loop; before each, count ``size`` characters."""
        for value in values:
            self.reserve(size)
            yield value


BUDGET: Final[ContextVar[RenderingBudget]] = ContextVar("BUDGET")
"""Budget of the current rendering in this thread or task."""
