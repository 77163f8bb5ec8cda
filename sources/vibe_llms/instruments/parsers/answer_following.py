"""Partial values of an answer that is being received."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import attrs

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    StreamEvent,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.parsers.items import ItemReader
from vibe_llms.instruments.parsers.json_reader import TRIES_LIMIT, JsonFault, JsonReader
from vibe_llms.instruments.parsers.target_types import TargetType
from vibe_llms.messages.canisters import InvocationCanister, Owner
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.requests import Response
from vibe_llms.providers.interfaces import AsyncStream

ReadAnswer: TypeAlias = Callable[[Response], Awaitable[Any]]
"""Function that reads the value of a complete answer."""


class TextReader:
    """Reader of the JSON value in an answer's text, while it arrives.

    Args:
        openings: The characters with which the value may start, such as ``{[``.
    """

    def __init__(self, openings: str) -> None:
        self._opening = re.compile(f"[{re.escape(openings)}]")
        self._reader: JsonReader | None = None
        self._pieces: list[str] = []
        """Text since the start of the value that is being read."""
        self._tries = 0

    @property
    def value(self) -> Any:
        """The value received so far; ``ABSENT`` at the start."""
        return ABSENT if self._reader is None else self._reader.value

    def feed(self, text: str) -> bool:
        """Read more text; return whether the visible value has changed."""
        before = self._count_changes()
        if self._reader is not None and not self._reader.is_complete:
            self._pieces.append(text)
            try:
                self._reader.feed(text)
            except JsonFault:  # this was not the start of a value
                self._reader = None
                # Search after the character that was mistaken for the start of a value.
                self._search("".join(self._pieces)[1:])
        elif self._reader is None:
            self._search(text)
        return self._count_changes() != before

    def _count_changes(self) -> tuple[int, int]:
        """Return the number of readers so far, and the changes of the current one."""
        return (self._tries, self._reader.changes if self._reader else 0)

    def _search(self, text: str) -> None:
        """Start a reader at the first position where a value may start."""
        while self._tries < TRIES_LIMIT and (found := self._opening.search(text)):
            self._tries += 1
            reader, text = JsonReader(), text[found.start() :]
            try:
                reader.feed(text)
            except JsonFault:
                text = text[1:]
                continue
            self._reader, self._pieces = reader, [text]
            return


@define
class AnswerFollower:
    """Collects the part of an answer received so far: of the invocation, or of the text.

    Attributes:
        kind: The type of the answer.
        name: The name of the invocation whose arguments are the answer.
    """

    kind: TargetType
    name: str
    _kinds: dict[int, str] = attrs.field(factory=dict, init=False)
    """Kind of each content that may be the answer: ``text`` or ``invocation``; by index."""
    _read_indexes: set[int] = attrs.field(factory=set, init=False)
    """Contents of which the reader has received at least a part."""
    _reader: TextReader = attrs.field(init=False)
    _is_called: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = self._produce_reader()

    def _produce_reader(self) -> TextReader:
        return TextReader("{[" if self.kind.is_list else "{")

    @property
    def value(self) -> Any:
        """The partial answer as plain data; ``ABSENT`` at the start."""
        return self._reader.value

    @property
    def partial(self) -> Any:
        """The partial answer as a value of its type; ``ABSENT`` at the start."""
        return self.kind.view_partial(self._reader.value)

    def take(self, event: StreamEvent) -> bool:
        """Take an event; return whether the visible value has changed."""
        match event:
            case ContentStartedEvent(index=index):
                self._start(event)
            case ContentDeltaEvent(index=index, channel="text" | "arguments", text=text):
                kind = "text" if event.channel == "text" else "invocation"
                if self._kinds.get(index) == kind:
                    self._read_indexes.add(index)
                    return self._reader.feed(text)
            case ContentFinishedEvent(index=index, item=TextualContent(text=text)):
                return self._finish(index, "text", text)
            case ContentFinishedEvent(index=index, item=InvocationCanister(arguments=text)):
                return self._finish(index, "invocation", text)
        return False

    def _start(self, event: ContentStartedEvent) -> None:
        if event.kind == "text" and not self._is_called:
            self._kinds[event.index] = "text"
        is_ours = event.owner is Owner.OURS and event.name == self.name
        if event.kind == "invocation" and is_ours and not self._is_called:
            # The text before an invocation is not the answer.
            self._kinds = {event.index: "invocation"}
            self._is_called, self._reader = True, self._produce_reader()

    def _finish(self, index: int, kind: str, text: str) -> bool:
        """Read a complete content, if no parts of it were received before."""
        if self._kinds.get(index) != kind or index in self._read_indexes:
            return False
        self._read_indexes.add(index)
        return self._reader.feed(text)


async def follow(
    follower: AnswerFollower, stream: AsyncStream, read: ReadAnswer
) -> AsyncIterator[Any]:
    """See :meth:`.Parser.follow`."""
    async for event in stream:
        if follower.take(event) and (partial := follower.partial) is not ABSENT:
            yield partial
    yield await read(await stream.response())


async def follow_items(
    follower: AnswerFollower, items: ItemReader, stream: AsyncStream, read: ReadAnswer
) -> AsyncIterator[Any]:
    """See :meth:`.Parser.follow_items`."""
    async for event in stream:
        if follower.take(event):
            for item in await items.take(follower.value):
                yield item
    for item in items.list_rest(await read(await stream.response())):
        yield item
