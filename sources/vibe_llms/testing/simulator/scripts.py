"""Scripts: answers that a test prescribes to a simulated vendor, in no vendor's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject


@frozen(kw_only=True)
class Cite:
    """A source that a text cites.

    Attributes:
        url: The address of the source.
        title: The title of the source.
        quote: The quoted text.
    """

    url: str
    title: str = "A source"
    quote: str = "As the source says."


@frozen
class Think:
    """Reasoning, which the vendor signs.

    Attributes:
        text: The reasoning.
        redacted: True if only the signature is shown, without text.
    """

    text: str
    redacted: bool = attrs.field(default=False, kw_only=True)


@frozen
class Say:
    """Text.

    Attributes:
        text: The text.
        citations: The cited sources, as the vendor reports them.
    """

    text: str
    citations: tuple[Cite, ...] = ()


@frozen
class Invoke:
    """An invocation of one of the client's tools.

    Attributes:
        name: The tool.
        arguments: A mapping; a text is sent unchanged, valid or not.
        id: The id of the call; ``None`` lets the vendor generate one.
        custom: True for a tool of free text (OpenAI's custom tools).
    """

    name: str
    arguments: Mapping[str, object] | str = attrs.field(factory=dict, hash=False)
    id: str | None = None
    custom: bool = attrs.field(default=False, kw_only=True)


@frozen
class Refuse:
    """The model refuses, in the vendor's format."""

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
    """A web search that the vendor executes itself, with its results."""

    query: str
    results: tuple[Cite, ...] = ()


@frozen
class Compute:
    """Code that the vendor executes itself, with its output; ``failed`` if it raised an error."""

    code: str
    output: str = ""
    failed: bool = attrs.field(default=False, kw_only=True)


@frozen
class Raw:
    """A block, item or part in the vendor's own format, sent unchanged."""

    block: JsonObject = attrs.field(hash=False)


Part: TypeAlias = Think | Say | Invoke | Refuse | Draw | Speak | Search | Compute | Raw


@frozen(kw_only=True)
class Tokens:
    """Reported usage of an exchange, in tokens.

    Attributes:
        received: Tokens of the prompt, including cached and written ones.
        produced: Tokens of the answer, including reasoning.
        cached: Read from a cache.
        written: Written to a cache, for any time.
        written_long: The part of these that was written for an hour.
        reasoning: Spent on reasoning.
    """

    received: int
    produced: int
    cached: int = 0
    written: int = 0
    written_long: int = 0
    reasoning: int = 0


@frozen(kw_only=True)
class ScriptedAnswer:
    """One answer of a simulated vendor.

    Attributes:
        parts: Parts of the answer, in order.
        stop: Why the answer ended: ``end``, ``length``, ``stop_sequence``, ``tool_use``,
            ``refusal``, ``content_filter``, ``pause``, ``context``, or the vendor's own word; with
            None it depends on the parts.
        stop_sequence: The text at which it stopped.
        usage: The reported usage; None has it counted.
        simulate: Faults and quirks for this answer alone, in the format of ``x-simulate``.
    """

    parts: tuple[Part, ...]
    stop: str | None = None
    stop_sequence: str | None = None
    usage: Tokens | None = None
    simulate: str = ""

    @property
    def ending(self) -> str:
        """Why the answer ended; without a reason in the script, it depends on the parts."""
        if self.stop is not None:
            return self.stop
        if any(isinstance(part, Invoke) for part in self.parts):
            return "tool_use"
        if any(isinstance(part, Refuse) for part in self.parts):
            return "refusal"
        return "end"
