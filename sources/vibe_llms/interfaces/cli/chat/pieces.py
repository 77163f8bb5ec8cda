"""Convert a complete answer to stream events, so that it is displayed like a streamed answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from vibe_llms.events.stream import ContentDeltaEvent, ContentStartedEvent, LossEvent, StreamEvent
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import ReasoningContent, RefusalContent, TextualContent
from vibe_llms.messages.losses import Loss

_READABLE: Final = (TextualContent, ReasoningContent, RefusalContent)


def produce_events(
    canisters: Sequence[AnyCanister], losses: Sequence[Loss] = ()
) -> Iterator[StreamEvent]:
    """Build the stream events of a complete answer."""
    for loss in losses:
        yield LossEvent(loss=loss)
    index = 0
    for canister in canisters:
        for content in canister.content:
            if isinstance(content, _READABLE) and content.text:
                yield ContentStartedEvent(index=index, kind=content.type)
                yield ContentDeltaEvent(index, content.text, kind=content.type)
                index += 1
