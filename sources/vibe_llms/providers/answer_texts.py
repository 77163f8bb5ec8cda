"""The text of an answer, from the events of its stream."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

from vibe_llms.dialects.separators import GrowingContent, Separators
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    StreamEvent,
)
from vibe_llms.messages.contents import TextualContent


async def iterate_text(events: AsyncIterable[StreamEvent]) -> AsyncIterator[str]:
    """Yield the pieces of the answer's text. Joined, they are the ``text`` of the response.

    Reasoning, refusals, media and calls are left out. An empty line separates texts as in the
    response.
    """
    separators = Separators()
    contents: dict[int, GrowingContent] = {}
    async for event in events:
        match event:
            case ContentStartedEvent():
                content = contents[event.index] = GrowingContent(event)
                separators.add(content)
                continue
            case ContentDeltaEvent(channel="text", kind="text"):
                text, content = event.text, contents[event.index]
            case ContentFinishedEvent(item=TextualContent(text=text)):
                content = contents[event.index]
                text = "" if content.last_channel else text  # if it was not streamed in pieces
            case _:
                continue
        if text:
            separator = separators.find_before_text(content)
            content.last_channel = "text"
            yield separator + text
