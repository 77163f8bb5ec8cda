"""Specifications of guards, which examine requests, answers and the arguments of tools."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.secrets import Settings

if TYPE_CHECKING:  # types only: this module is below theirs
    from vibe_llms.messages.requests import Request

GuardedPart: TypeAlias = Literal["request", "answer", "arguments"]
"""A part of the traffic: the request to a model, its answer, or the arguments of a tool that is
about to be executed."""


@frozen(kw_only=True)
class Inspection:
    """Texts that a guard examines together.

    Attributes:
        part: The part of the traffic: ``request``, ``answer`` or ``arguments``.
        texts: The texts, such as those of all messages of a request; of JSON arguments, each text
            and each long number.
        begin: Index of the first new character in the first text. The characters before it were
            delivered earlier and are only context; findings there are ignored.
        is_complete: False for a window of a stream: more text follows the last character.
        model: Address of the model; empty for the arguments of a tool.
        tool: Name of the tool, if the texts are the arguments of a call.
        request: The request to the model; ``None`` for the arguments of a tool.
    """

    part: GuardedPart
    texts: tuple[str, ...] = attrs.field(repr=False)
    begin: int = 0
    is_complete: bool = True
    model: str = ""
    tool: str = ""
    request: Request | None = attrs.field(default=None, eq=False, repr=False)


@frozen
class Redaction:
    """A span of a text to be replaced.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        mark: The replacement, such as ``[card number removed]``.
        reason: What was found, such as ``a card number``, without the text itself: it is reported
            as a loss.
        text: Index of the text among those of the inspection.
    """

    start: int
    end: int
    mark: str
    reason: str
    text: int = 0


@frozen
class GuardRefusal:
    """The refusal of everything that a guard was shown.

    Attributes:
        reason: What was found, such as ``it has a card number``, without the text itself: it is a
            part of the error.
    """

    reason: str


GuardVerdict: TypeAlias = Sequence[Redaction] | GuardRefusal
"""Result of an examination: nothing to let all texts pass, the spans to replace, or a refusal."""


class Guard(Protocol):
    """Examines texts.

    An exception refuses the texts; its message is not shown, as it may contain them.
    """

    @property
    def window(self) -> int | None:
        """Characters of a stream to hold back: the longest text by which a finding is recognized.

        A finding that reaches the end of an incomplete text is held back as a whole until it ends.
        With ``None`` the whole answer is held back, and examined once.
        """

    async def examine(self, inspection: Inspection) -> GuardVerdict:
        """Examine texts."""
        ...


@frozen(kw_only=True)
class GuardContext:
    """Context for making a guard.

    Attributes:
        name: Its name: the ``NAME`` of ``[guards.NAME]``.
        settings: The keys of its table except ``kind``, ``parts``, ``models`` and ``enabled``:
            plain TOML values. The guard validates them.
        access: Returns a model by the word of its genus, such as ``converser`` or ``moderator``,
            and its address; empty for the configured model. No guard examines its calls.
        working_directory: Start of relative paths in the settings.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    access: Callable[[str, str], Awaitable[Any]] = attrs.field(repr=False)
    working_directory: Path


@frozen
class GuardSpecification:
    """A kind of guard.

    Attributes:
        name: Its name: the ``kind`` of ``[guards.NAME]``. The shipped ones cannot be replaced.
        summary: What it finds, in one line.
        factory: Makes a guard from its context, for each table of this kind; import heavy libraries
            in the factory or later.
    """

    name: str
    summary: str
    factory: Callable[[GuardContext], Guard]
