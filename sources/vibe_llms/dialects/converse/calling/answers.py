"""A complete answer as the events of an equivalent stream."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_llms.dialects.converse.tables import AnswerBody
from vibe_llms.events.stream import (
    Channel,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.messages.canisters import AssistantCanister, InvocationCanister, ResultCanister
from vibe_llms.messages.contents import (
    AnyContent,
    CacheHint,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)


def list_events(answer: AnswerBody) -> Iterator[StreamEvent]:
    """Yield the events, without the losses and the end.

    Raises:
        ValueError: The answer has a canister that a model cannot produce.
    """
    origin = answer.metadata.origin
    yield ResponseStartedEvent(
        response_id=origin.response_id, model=origin.model, request_id=answer.metadata.request_id
    )
    index = 0
    for group, canister in enumerate(answer.canisters):
        match canister:
            case AssistantCanister():
                last = len(canister.content) - 1
                for place, content in enumerate(canister.content):
                    if isinstance(content, CacheHint):  # models do not produce any
                        continue
                    yield ContentStartedEvent(index=index, kind=content.type, group=group)
                    yield from _list_pieces(index, content)
                    native = canister.native if place == last else None
                    yield ContentFinishedEvent(index=index, item=content, group_native=native)
                    index += 1
            case InvocationCanister():
                yield from _list_invocation(index, canister)
                index += 1
            case ResultCanister():
                yield ContentStartedEvent(index=index, kind="result", owner=canister.owner)
                yield ContentFinishedEvent(index=index, item=canister)
                index += 1
            case _:
                raise ValueError(f"a response cannot contain a {canister.role} canister")
    if origin.usage is not None:
        yield UsageEvent(usage=origin.usage)


def _list_pieces(index: int, content: AnyContent) -> Iterator[StreamEvent]:
    """Yield the text of a content; the whole content follows at its end."""
    pieces: tuple[tuple[str, Channel], ...] = ()
    match content:
        case TextualContent() | RefusalContent():
            pieces = ((content.text, "text"),)
        case ReasoningContent():
            summary: tuple[tuple[str, Channel], ...] = tuple(
                (part, "summary") for part in content.summary
            )
            pieces = (*summary, (content.text, "text"))
    for text, channel in pieces:
        if text:
            yield ContentDeltaEvent(index, text, channel)


def _list_invocation(index: int, canister: InvocationCanister) -> Iterator[StreamEvent]:
    yield ContentStartedEvent(
        index=index,
        kind="invocation",
        invocation_id=canister.invocation_id,
        name=canister.name,
        form=canister.form,
        owner=canister.owner,
    )
    if canister.arguments:
        yield ContentDeltaEvent(index, canister.arguments, "arguments")
    yield ContentFinishedEvent(index=index, item=canister)
