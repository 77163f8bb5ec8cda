"""What a simulated vendor says: frozen values that a test writes down, in no vendor's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject


@frozen(kw_only=True)
class Cite:
    """A place that a text rests on.

    Attributes:
        url: Where it is.
        title: What it is called.
        quote: The words of the source.
    """

    url: str
    title: str = "A source"
    quote: str = "As the source says."


@frozen
class Think:
    """Reasoning, which the vendor signs.

    Attributes:
        text: The words.
        redacted: Whether only the signature is shown, and no words.
    """

    text: str
    redacted: bool = attrs.field(default=False, kw_only=True)


@frozen
class Say:
    """Text.

    Attributes:
        text: The words.
        citations: The sources on which they rest, as the vendor tells of them.
    """

    text: str
    citations: tuple[Cite, ...] = ()


@frozen
class Invoke:
    """An invocation of one of the client's tools.

    Attributes:
        name: The tool.
        arguments: A mapping; a text is sent as it is, broken or not.
        id: Of the call; ``None`` lets the vendor make one up.
        custom: Whether it is a tool of free text (OpenAI's custom tools).
    """

    name: str
    arguments: Mapping[str, object] | str = attrs.field(factory=dict, hash=False)
    id: str | None = None
    custom: bool = attrs.field(default=False, kw_only=True)


@frozen
class Refuse:
    """The model declines, the way the vendor has of saying so."""

    text: str


@frozen
class Draw:
    """A picture, as the bytes of a PNG."""

    data: bytes


@frozen
class Speak:
    """Audio, as the bytes of a WAV, with its words."""

    data: bytes
    transcript: str = ""


@frozen
class Search:
    """A search of the web that the vendor executes itself, and what it found."""

    query: str
    results: tuple[Cite, ...] = ()


@frozen
class Raw:
    """A block, item or part in the vendor's own words, sent as it is."""

    block: JsonObject = attrs.field(hash=False)


Part: TypeAlias = Think | Say | Invoke | Refuse | Draw | Speak | Search | Raw


@frozen(kw_only=True)
class Tokens:
    """What the vendor says an exchange took, in tokens.

    Attributes:
        received: Of the prompt, cached ones and written ones included.
        produced: Of the answer, reasoning included.
        cached: Read from a cache.
        written: Written to a cache.
        reasoning: Spent on reasoning.
    """

    received: int
    produced: int
    cached: int = 0
    written: int = 0
    reasoning: int = 0


@frozen(kw_only=True)
class ScriptedAnswer:
    """One answer of a simulated vendor.

    Attributes:
        parts: What it says, in order.
        stop: Why it ends: ``end``, ``length``, ``stop_sequence``, ``tool_use``, ``refusal``,
            ``content_filter``, ``pause``, ``context``, or the vendor's own word; None lets the
            parts decide.
        stop_sequence: The text at which it stopped.
        usage: None lets it be counted.
        simulate: Names of faults and quirks for this answer alone, as in ``x-simulate``.
    """

    parts: tuple[Part, ...]
    stop: str | None = None
    stop_sequence: str | None = None
    usage: Tokens | None = None
    simulate: str = ""

    @property
    def ending(self) -> str:
        """Why it ends, decided by the parts where the script does not say."""
        if self.stop is not None:
            return self.stop
        if any(isinstance(part, Invoke) for part in self.parts):
            return "tool_use"
        if any(isinstance(part, Refuse) for part in self.parts):
            return "refusal"
        return "end"
