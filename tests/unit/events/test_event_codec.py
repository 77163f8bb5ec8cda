"""Events can be written and read back."""

from __future__ import annotations

import json
import typing
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.messages import (
    canisters_by_role,
    citations,
    contents,
    conversations,
    errors_of,
    json_objects,
    losses,
    natives,
    responses,
    survey_error_classes,
    texts,
    timestamps,
    usages,
)
from vibe_llms.events import conversation, stream
from vibe_llms.events.codec import EVENT_CLASSES, AnyEvent, decode_event, encode_event
from vibe_llms.exceptions import CodecError
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.codec import encode_error

indices = st.integers(0, 9)
errors = st.sampled_from(survey_error_classes()).flatmap(errors_of)
stream_events: dict[type, st.SearchStrategy[Any]] = {
    stream.ResponseStartedEvent: st.builds(
        stream.ResponseStartedEvent, response_id=st.none() | texts, model=texts
    ),
    stream.ContentStartedEvent: st.builds(
        stream.ContentStartedEvent,
        index=indices,
        kind=st.sampled_from(typing.get_args(stream.ContentKind)),
        name=st.none() | texts,
    ),
    stream.ContentDeltaEvent: st.builds(
        stream.ContentDeltaEvent, indices, texts, st.sampled_from(typing.get_args(stream.Channel))
    ),
    stream.ContentFinishedEvent: st.builds(
        stream.ContentFinishedEvent,
        index=indices,
        item=st.none() | contents | canisters_by_role["invocation"] | canisters_by_role["result"],
    ),
    stream.ContentCitedEvent: st.builds(
        stream.ContentCitedEvent, index=st.integers(0, 9), citation=citations
    ),
    stream.NativeEvent: st.builds(stream.NativeEvent, kind=st.text(max_size=9), native=natives),
    stream.UsageEvent: st.builds(stream.UsageEvent, usage=usages),
    stream.RetryEvent: st.builds(
        stream.RetryEvent, attempt=st.integers(2, 9), after_seconds=st.just(0.5), error=errors
    ),
    stream.LossEvent: st.builds(stream.LossEvent, loss=losses),
    stream.ResponseFinishedEvent: st.builds(
        stream.ResponseFinishedEvent,
        stop_reason=st.sampled_from(StopReason),
        response=st.none() | responses,
    ),
    stream.ResponseFailedEvent: st.builds(
        stream.ResponseFailedEvent, error=errors, canisters=conversations.map(tuple)
    ),
}
_common: dict[str, Any] = {
    "conversation_id": texts,
    "timestamp": timestamps,
    "metadata": json_objects,
}
conversation_events: dict[type, st.SearchStrategy[Any]] = {
    conversation.ConversationStartedEvent: st.builds(
        conversation.ConversationStartedEvent, **_common
    ),
    conversation.ConversationProgressEvent: st.builds(
        conversation.ConversationProgressEvent, chunk=texts, **_common
    ),
    conversation.ConversationUpdatedEvent: st.builds(
        conversation.ConversationUpdatedEvent, event=st.one_of(*stream_events.values()), **_common
    ),
    conversation.ConversationCompletedEvent: st.builds(
        conversation.ConversationCompletedEvent, response=responses, **_common
    ),
    conversation.ConversationFailedEvent: st.builds(
        conversation.ConversationFailedEvent,
        error=errors,
        canisters=conversations.map(tuple),
        **_common,
    ),
    conversation.ConversationEndedEvent: st.builds(
        conversation.ConversationEndedEvent,
        outcome=st.sampled_from(typing.get_args(conversation.Outcome)),
        **_common,
    ),
}
events = {**stream_events, **conversation_events}


def test_every_class_of_events_is_tried_below() -> None:
    """A new kind of event cannot be forgotten here."""
    assert set(events) == set(EVENT_CLASSES.values())


@pytest.mark.parametrize("cls", events, ids=lambda cls: cls.__name__)
@settings(max_examples=15)
@given(data=st.data())
def test_events_come_back_as_they_were(cls: type, data: st.DataObject) -> None:
    """Writing an event and reading it gives an equal event; errors keep class and facts."""
    event: AnyEvent = data.draw(events[cls])

    written = encode_event(event)
    again = decode_event(written)

    assert type(again) is cls
    assert encode_event(again) == written
    error = getattr(event, "error", None)
    if error is not None:
        assert encode_error(cast(Any, again).error) == encode_error(error)
    elif not isinstance(event, conversation.ConversationUpdatedEvent):
        assert again == event


def test_an_event_is_written_with_its_word_first() -> None:
    """The stable word lets a reader dispatch before it has read the rest."""
    written = encode_event(stream.ContentDeltaEvent(0, "hi"))

    assert json.loads(written) == {
        "type": "content.delta",
        "index": 0,
        "text": "hi",
        "channel": "text",
    }
    assert written.startswith(b'{"type":"content.delta"')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"type": "content.deleted"}', "$.type"),
        ("[]", "$.type"),
        ('{"type": "content.delta", "index": "x", "text": ""}', "$.index"),
        ('{"type": "content.delta", "index": 0, "text": "", "colour": 1}', "colour"),
    ],
)
def test_what_is_no_event_is_refused_with_its_place(text: str, place: str) -> None:
    """The error names the place, and the known words where it is a matter of words."""
    with pytest.raises(CodecError) as caught:
        decode_event(text)

    assert place in str(caught.value)


def test_what_cannot_be_written_is_refused_with_its_place() -> None:
    """Half a character is no text that JSON could carry."""
    with pytest.raises(CodecError, match="text"):
        encode_event(stream.ContentDeltaEvent(0, "\ud800"))


def test_what_is_not_json_is_refused() -> None:
    """The error says so."""
    with pytest.raises(CodecError, match="not JSON"):
        decode_event(b"{")
