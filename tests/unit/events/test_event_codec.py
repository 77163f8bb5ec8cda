"""Events can be written and read back."""

from __future__ import annotations

import json
import typing
from collections.abc import Mapping
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import (
    canisters_by_role,
    citations,
    contents,
    conversations,
    counts,
    errors_of,
    json_objects,
    losses,
    natives,
    responses,
    seconds,
    survey_error_classes,
    texts,
    timestamps,
    usages,
)
from support.quality.properties import examples
from vibe_llms.events import conversation, engine, flow, runs, stream
from vibe_llms.events.codec import EVENT_CLASSES, AnyEvent, decode_event, encode_event
from vibe_llms.exceptions import CodecError, ConverseError
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.codec.errors import encode_error
from vibe_llms.messages.contents import TextualContent

indices = st.integers(0, 9)
errors = st.sampled_from(survey_error_classes()).flatmap(errors_of)
_fields: dict[Any, st.SearchStrategy[Any]] = {
    str: texts,
    int: counts,
    float: seconds,
    bool: st.booleans(),
    StopReason: st.sampled_from(StopReason),
    Usage: usages,
    ConverseError: errors,
    ResultCanister: canisters_by_role["result"],
    Mapping[str, JsonValue]: json_objects,
    tuple[Mapping[str, JsonValue], ...]: st.lists(json_objects, max_size=2).map(tuple),
    tuple[str, ...]: st.lists(texts, max_size=3).map(tuple),
    tuple[int, ...]: st.lists(counts, max_size=3).map(tuple),
    tuple[AnyCanister, ...]: conversations.map(tuple),
    AnyCanister: conversations.filter(bool).map(lambda said: said[0]),
}


def _compose_field(annotation: Any) -> st.SearchStrategy[Any]:
    if annotation in _fields:
        return _fields[annotation]
    if typing.get_origin(annotation) is typing.Literal:
        return st.sampled_from(typing.get_args(annotation))
    inner, none = typing.get_args(annotation)  # nothing but `| None` is left
    assert none is type(None)
    return st.none() | _fields[inner]


def _compose_fields(cls: type) -> dict[str, st.SearchStrategy[Any]]:
    """Makes a strategy for each field from its annotation, so that a new one is covered."""
    annotations = typing.get_type_hints(cls)
    return {
        field.name: _compose_field(annotations[field.name])
        for field in attrs.fields(cls)
        if field.init
    }


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
        outcome=st.sampled_from(typing.get_args(conversation.Ending)),
        **_common,
    ),
}
engine_events: dict[type, st.SearchStrategy[Any]] = {
    cls: st.builds(cls, **_compose_fields(cls)) for cls in typing.get_args(engine.EngineEvent)
}
flow_events: dict[type, st.SearchStrategy[Any]] = {
    cls: st.builds(cls, **_compose_fields(cls)) for cls in typing.get_args(flow.FlowEvent)
}
outside_events: dict[type, st.SearchStrategy[Any]] = {
    cls: st.builds(cls, **_compose_fields(cls)) for cls in typing.get_args(runs.OutsideEvent)
}
events = {
    **stream_events,
    **conversation_events,
    **engine_events,
    **flow_events,
    **outside_events,
}


def test_every_class_of_events_is_tried_below() -> None:
    """A new kind of event cannot be forgotten here."""
    assert set(events) == set(EVENT_CLASSES.values())


@pytest.mark.slow
@pytest.mark.parametrize("cls", events, ids=lambda cls: cls.__name__)
@examples(15)
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


@pytest.mark.parametrize(
    "item",
    [None, TextualContent("hi"), InvocationCanister(invocation_id="1", name="n")],
    ids=["nothing", "content", "canister"],
)
def test_what_has_finished_may_be_a_content_or_a_canister(item: stream.FinishedItem) -> None:
    """The one is told by its type, the other by its role."""
    event = stream.ContentFinishedEvent(index=0, item=item)

    assert decode_event(encode_event(event)) == event


def test_an_event_is_written_with_its_word_first() -> None:
    """The stable word lets a reader dispatch before it has read the rest."""
    written = encode_event(stream.ContentDeltaEvent(0, "hi"))

    assert json.loads(written) == {
        "type": "content.delta",
        "index": 0,
        "text": "hi",
        "channel": "text",
        "kind": "text",
    }
    assert written.startswith(b'{"type":"content.delta"')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"type": "content.deleted"}', "$.type"),
        ("[]", "must be an object"),
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
    with pytest.raises(CodecError, match="JSON"):
        decode_event(b"{")
