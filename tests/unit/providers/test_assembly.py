"""The assembler completes what decoders leave open and refuses what makes no sense."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    ResponseFinishedEvent,
    ResponseStartedEvent,
    StreamEvent,
    UsageEvent,
)
from vibe_llms.exceptions import ConverseError, LimitError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    StopReason,
    Usage,
)
from vibe_llms.messages.contents import ReasoningContent, TextualContent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.providers.assembly import Assembler

FINISH = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED, native_stop_reason="stop")


def feed(*events: StreamEvent, limits: Limits | None = None) -> Assembler:
    assembler = Assembler(provider="p", model="m", protocol="d", limits=limits)
    for event in events:
        assembler.feed(event)
    return assembler


def start(index: int, kind: str = "text") -> ContentStartedEvent:
    return ContentStartedEvent(index=index, kind=kind, invocation_id="i", name="n")  # type: ignore[arg-type]


def test_the_order_of_contents_is_the_order_of_the_canisters() -> None:
    """Neighbouring contents share a canister; an invocation is one of its own."""
    assembler = feed(
        ResponseStartedEvent(response_id="r", model="vendor-model"),
        start(0, "reasoning"),
        ContentDeltaEvent(0, "thin"),
        ContentDeltaEvent(0, "k"),
        ContentFinishedEvent(index=0),
        start(1),
        ContentDeltaEvent(1, "say"),
        ContentFinishedEvent(index=1),
        start(2, "invocation"),
        ContentDeltaEvent(2, '{"a"', "arguments"),
        ContentDeltaEvent(2, ":1}", "arguments"),
        ContentFinishedEvent(index=2),
        start(3),
        ContentDeltaEvent(3, "more"),
        ContentFinishedEvent(index=3),
        UsageEvent(usage=Usage(output_tokens=3)),
        FINISH,
    )

    first, invocation, last = assembler.produce_canisters()

    assert isinstance(first, AssistantCanister)
    assert first.content == (ReasoningContent(text="think"), TextualContent("say"))
    assert isinstance(invocation, InvocationCanister)
    assert (invocation.name, invocation.arguments) == ("n", '{"a":1}')
    assert isinstance(last, AssistantCanister)
    assert last.content == (TextualContent("more"),)
    assert len({first.turn_id, invocation.turn_id, last.turn_id}) == 1
    assert first.origin == invocation.origin == last.origin == assembler.origin
    assert assembler.origin.model == "vendor-model"
    assert assembler.origin.response_id == "r"
    assert assembler.origin.usage == Usage(output_tokens=3)
    assert assembler.origin.stop_reason is StopReason.ANSWERED


@given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=3)), max_size=30))
def test_interleaved_deltas_reach_their_own_content(deltas: list[tuple[int, str]]) -> None:
    """Contents that grow at the same time do not mix."""
    events: list[StreamEvent] = [start(index) for index in range(3)]
    events += [ContentDeltaEvent(index, text) for index, text in deltas]
    events += [ContentFinishedEvent(index=index) for index in range(3)]

    (canister,) = feed(*events, FINISH).produce_canisters()

    assert canister.content == tuple(
        TextualContent("".join(text for index, text in deltas if index == own)) for own in range(3)
    )


def test_a_signature_replaces_what_came_before_on_its_channel() -> None:
    """All other channels append."""
    assembler = feed(
        start(0, "reasoning"),
        ContentDeltaEvent(0, "old", "signature"),
        ContentDeltaEvent(0, "new", "signature"),
        ContentDeltaEvent(0, "sum", "summary"),
        ContentFinishedEvent(index=0),
        FINISH,
    )

    (canister,) = assembler.produce_canisters()
    assert canister.content == (ReasoningContent(summary=("sum",), signature="new"),)


def test_a_final_copy_from_the_vendor_wins_over_the_deltas() -> None:
    """Where a decoder gives the content itself, that is what counts."""
    final = TextualContent("authoritative")

    assembler = feed(
        start(0), ContentDeltaEvent(0, "draft"), ContentFinishedEvent(index=0, item=final), FINISH
    )

    assert assembler.produce_canisters()[0].content == (final,)


def test_a_finished_content_is_filled_in() -> None:
    """A consumer always finds the whole content in the event that finishes it."""
    assembler = feed(start(0), ContentDeltaEvent(0, "hi"))

    event = assembler.feed(ContentFinishedEvent(index=0))

    assert isinstance(event, ContentFinishedEvent)
    assert event.item == TextualContent("hi")


def test_what_was_cut_off_is_kept_except_an_invocation() -> None:
    """Half a text is worth keeping; half the arguments of a call are dangerous."""
    assembler = feed(
        start(0),
        ContentDeltaEvent(0, "half a"),
        start(1, "invocation"),
        ContentDeltaEvent(1, '{"path": "/', "arguments"),
    )

    (canister,) = assembler.produce_canisters()

    assert canister.content == (TextualContent("half a"),)
    assert isinstance(canister, AssistantCanister)
    assert canister.origin is not None
    assert canister.origin.stop_reason is StopReason.INTERRUPTED


def test_what_has_arrived_can_be_asked_for_again_and_is_the_same() -> None:
    """Ids and timestamps are given when a content begins, not when it is asked for."""
    assembler = feed(start(0), ContentDeltaEvent(0, "half"))

    assert assembler.produce_canisters() == assembler.produce_canisters()


@pytest.mark.parametrize(
    "events",
    [
        [start(0), start(0)],
        [ContentDeltaEvent(0, "x")],
        [ContentFinishedEvent(index=0)],
        [start(0), ContentFinishedEvent(index=0), ContentDeltaEvent(0, "x")],
        [start(0), ContentFinishedEvent(index=0), ContentFinishedEvent(index=0)],
        [start(0), FINISH],
        [FINISH, FINISH],
        [FINISH, start(0)],
        [start(0, "image"), ContentFinishedEvent(index=0)],
    ],
)
def test_events_that_make_no_sense_are_refused(events: list[StreamEvent]) -> None:
    """A mistake of a decoder is loud."""
    with pytest.raises(ConverseError, match="Invalid stream"):
        feed(*events)


@given(
    st.lists(st.tuples(st.sampled_from(("text", "summary")), st.integers(1, 200)), max_size=60),
)
def test_a_long_content_is_all_that_was_said_on_each_channel(said: list[tuple[str, int]]) -> None:
    """However long its pieces are, and wherever they change from one channel to the other."""
    pieces = [(channel, f"{number}." * size) for number, (channel, size) in enumerate(said)]
    deltas = [ContentDeltaEvent(0, text, channel) for channel, text in pieces]  # type: ignore[arg-type]

    (canister,) = feed(start(0, "reasoning"), *deltas).produce_canisters()
    (content,) = canister.content

    assert isinstance(content, ReasoningContent)
    assert content.text == "".join(text for channel, text in pieces if channel == "text")
    summary = "".join(text for channel, text in pieces if channel == "summary")
    assert "".join(content.summary) == summary


def test_many_small_pieces_take_little_more_than_what_they_say() -> None:
    """Thousands of streams may be open for minutes; a text of five letters takes 54 bytes."""
    assembler = feed(start(0))
    tracemalloc.start()
    try:
        for number in range(4_000):
            assembler.feed(ContentDeltaEvent(0, f"{number:04} "))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert taken < 2 * 4_000 * 5


@given(
    st.lists(st.integers(1, 90), max_size=30),
    st.integers(1, 900),
    st.integers(1, 900),
    st.sampled_from(("text", "arguments")),
)
def test_the_bound_of_a_content_is_exact(
    sizes: list[int], contents: int, arguments: int, channel: str
) -> None:
    """The first piece that exceeds it is refused, and none before."""
    bound = min(contents, arguments) if channel == "arguments" else contents
    limits = Limits(content_characters=contents, arguments_characters=arguments)
    assembler = feed(start(0, "invocation"), limits=limits)
    size = 0
    for each in sizes:
        size += each
        delta = ContentDeltaEvent(0, "x" * each, channel)  # type: ignore[arg-type]
        if size <= bound:
            assembler.feed(delta)
            continue
        with pytest.raises(LimitError):
            assembler.feed(delta)
        return


def test_a_content_cannot_grow_without_bound() -> None:
    """The error names the limit."""
    events = [start(0), *[ContentDeltaEvent(0, "xxxx")] * 3]
    feed(*events, limits=Limits(content_characters=12))

    with pytest.raises(LimitError, match="content_characters = 11"):
        feed(*events, limits=Limits(content_characters=11))


def test_the_number_of_contents_is_bounded_and_nothing_weighs_nothing() -> None:
    """A million tiny events do not fill the memory."""
    with pytest.raises(LimitError, match="response_contents = 2"):
        feed(*[start(index) for index in range(3)], limits=Limits(response_contents=2))

    assembler = feed(start(0), *[ContentDeltaEvent(0, "")] * 100)
    assert assembler._contents[0].pieces == {}


def test_an_invocation_without_an_id_is_given_one_and_that_is_said() -> None:
    """Two parallel calls of a vendor without ids can be told apart."""
    nameless = [ContentStartedEvent(index=index, kind="invocation", name="n") for index in range(2)]
    ends = [ContentFinishedEvent(index=index) for index in range(2)]

    assembler = feed(*nameless, *ends, FINISH)

    ids = {c.invocation_id for c in assembler.produce_canisters() if c.role == "invocation"}
    assert len(ids) == 2
    assert "" not in ids
    assert [loss.kind for loss in assembler.losses] == [LossKind.SYNTHESIZED] * 2


def test_losses_are_collected() -> None:
    """Each loss that is told on the way is in the response."""
    loss = Loss(kind=LossKind.DROPPED, path="$", reason="why")

    assert feed(LossEvent(loss=loss)).losses == [loss]


@pytest.mark.parametrize(
    "event",
    [
        ResponseStartedEvent(response_id=7),  # type: ignore[arg-type]
        ResponseStartedEvent(model={"name": "m"}),  # type: ignore[arg-type]
        ContentDeltaEvent(0, 7),  # type: ignore[arg-type]
        ContentDeltaEvent(0, ["x"]),  # type: ignore[arg-type]
        ResponseFinishedEvent(
            stop_reason=StopReason.ANSWERED,
            native_stop_reason=7,  # type: ignore[arg-type]
        ),
    ],
)
def test_values_of_the_wrong_kind_are_refused_and_do_not_stay(event: StreamEvent) -> None:
    """What had arrived before can be had nevertheless."""
    assembler = feed(start(0), ContentDeltaEvent(0, "a"))
    if isinstance(event, ResponseFinishedEvent):
        assembler.feed(ContentFinishedEvent(index=0))

    with pytest.raises(ConverseError, match="Invalid stream") as caught:
        assembler.feed(event)

    assert type(caught.value) is ConverseError
    assert [canister.content for canister in assembler.produce_canisters()] == [
        (TextualContent("a"),)
    ]
