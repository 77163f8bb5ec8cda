"""A stream is held back as far as its guards need, and no further."""

from __future__ import annotations

from asyncio import run
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.guards.guarding import CARD, WordSpy, complete, count_looks, join_deltas, mark, watch
from support.quality.properties import examples
from vibe_llms.events.stream import (
    ContentCitedEvent,
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    NativeEvent,
    ResponseFinishedEvent,
    StreamEvent,
)
from vibe_llms.exceptions import ConverseError, GuardError
from vibe_llms.guards.shipped.patterns import SECRET_KINDS
from vibe_llms.guards.shipped.secrets import SecretGuard, SecretSettings
from vibe_llms.guards.shipped.words import WordGuard, WordSettings
from vibe_llms.messages.canisters import StopReason
from vibe_llms.messages.contents import Citation, Native, ReasoningContent, TextualContent
from vibe_llms.plugins.specification.guards import Guard

SECRETS = SecretGuard(SecretSettings(find=tuple(SECRET_KINDS)))
WORDS = WordGuard(WordSettings(words=("walnut", "blue bird", "café")))
END = ResponseFinishedEvent(stop_reason=StopReason.ANSWERED)


def tell(*pieces: str, kind: Any = "text", channel: Any = "text") -> list[StreamEvent]:
    deltas = [ContentDeltaEvent(0, piece, channel, kind) for piece in pieces]
    events = [ContentStartedEvent(index=0, kind=kind), *deltas, ContentFinishedEvent(index=0), END]
    return complete(events)


async def pass_by(guard: Guard, events: Sequence[StreamEvent]) -> list[StreamEvent]:
    stream = watch(guard)
    return [each for event in events for each in await stream.feed([event])]


def find_item(events: Sequence[StreamEvent]) -> Any:
    return next(each.item for each in events if isinstance(each, ContentFinishedEvent))


@pytest.mark.parametrize("window", [1, 8, 1_000, None])
async def test_a_finding_is_replaced_in_the_pieces_and_in_the_content(window: int | None) -> None:
    events = tell(*"a walnut and a walnut.")

    passed = await pass_by(WordSpy(window=8 if window == 1 else window), events)

    assert join_deltas(passed) == "a [nut] and a [nut]."
    assert find_item(passed).text == "a [nut] and a [nut]."
    losses = [each.loss for each in passed if isinstance(each, LossEvent)]
    assert [str(each) for each in losses] == [
        "coerced contents[0]: the guard 'spy' replaced a nut by [nut]"
        if window is not None
        else "coerced contents[0].text: the guard 'spy' replaced a nut by [nut]"
    ]
    assert passed[-1] == END


@pytest.mark.parametrize("window", [8, None])
async def test_a_clean_answer_passes_unchanged(window: int | None) -> None:
    events = tell("All ", "is ", "well, ", "and nothing is hidden here.")

    passed = await pass_by(WordSpy(window=window), events)

    assert join_deltas(passed) == join_deltas(events)
    assert find_item(passed) is find_item(events)
    assert passed[-1] is END


async def test_only_the_window_is_held_back() -> None:
    """After each piece, no more is missing than the window and half of it."""
    guard, text = watch(WordSpy(window=8)), "nothing to be seen here at all, so go on" * 3
    events = tell(*text)
    shown = fed = 0
    for event in events:
        passed = await guard.feed([event])
        fed += isinstance(event, ContentDeltaEvent)
        shown += len(join_deltas(passed))
        assert fed - shown < 8 + 4

    assert shown == len(text)


@pytest.mark.parametrize("window", [4, 64, 1_000])
async def test_each_character_is_examined_a_bounded_number_of_times(window: int) -> None:
    """However small the pieces are."""
    spy = WordSpy(window=window)

    await pass_by(spy, tell(*("x" * 3_000)))

    assert count_looks(spy)() <= 6 * 3_000


async def test_a_growing_token_is_examined_a_bounded_number_of_times() -> None:
    """It is held back until it ends, and examined again when it has grown by half."""
    spy = WordSpy()
    spy.window = 64

    async def examine(inspection: Any) -> Any:
        spy.seen.append(inspection)
        return await SECRETS.examine(inspection)

    spy.examine = examine  # type: ignore[method-assign]
    passed = await pass_by(spy, tell(*("sk-" + "a1" * 4_000), " end"))

    assert join_deltas(passed) == "[key removed] end"
    assert count_looks(spy)() <= 6 * 8_000


LONG_TOKEN = f"eyJ{'hbGciOiJIUzI1NiJ9' * 12}.eyJzdWIiOiIxIn0.abc-1"
"""A web token that is recognized after many more characters than the window has."""

PIECES = st.sampled_from(
    (
        LONG_TOKEN,
        CARD,
        "DE89 3704 0044 0532 0130 00",
        "sk-ant-api03-abcdefghij1234567890",
        "ada@example.org",
        "-----BEGIN PRIVATE KEY-----\nMII\nabc\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n",
        "Version: 1.2\n",
        "-----END ",
        "=sk-ant-api03-abcdefghij1234567890",
        "4111.1111\u00a01111\u20131111",
        "gb82_west.1234 5698-7654 32",
        "0.4111111111111111",
        "WAL\uff2eUT",
        "cafe\u0301",
        "123-45-6789",
        "+44 20 7946 0958",
        "eyJhbGciOiJIUzI1NiJ9.eyJ",
        "zdWIiOiIxIn0.abc",
        "walnut",
        "blue",
        " bird",
        "blue   bird",
        " and then, ",
        ".",
        "x",
        "7",
        " 4",
        "word " * 30,
        "\n",
        "a1" * 90,
    )
)


async def test_a_long_token_is_held_back_until_it_is_recognized() -> None:
    """No part of it has passed by then."""
    passed = await pass_by(SECRETS, tell("Use ", *LONG_TOKEN, " now."))

    assert join_deltas(passed) == "Use [key removed] now."


@pytest.mark.parametrize("guard", [SECRETS, WORDS], ids=["secrets", "words"])
@examples(300)
@given(pieces=st.lists(PIECES, max_size=12), sizes=st.lists(st.integers(1, 90), min_size=1))
def test_a_stream_has_the_marks_of_the_whole_text(
    guard: Any, pieces: list[str], sizes: list[int]
) -> None:
    """However it is split."""
    text, place = "".join(pieces), 0
    cut: list[str] = []
    while place < len(text):
        size = sizes[len(cut) % len(sizes)]
        cut.append(text[place : place + size])
        place += size

    passed = run(pass_by(guard, tell(*cut)))

    assert join_deltas(passed) == run(mark(guard, text))
    assert find_item(passed).text == join_deltas(passed)


@pytest.mark.parametrize("window", [8, None])
async def test_arguments_are_held_back_and_stay_json(window: int | None) -> None:
    start = ContentStartedEvent(index=0, kind="invocation", invocation_id="1", name="send")
    deltas = [
        ContentDeltaEvent(0, piece, "arguments", "invocation")
        for piece in ('{"text": "a wal', 'nut \\"here\\"", "n": 12}')
    ]
    events = complete([start, *deltas, ContentFinishedEvent(index=0), END])

    passed = await pass_by(WordSpy(window=window), events)

    assert find_item(passed).parse_arguments() == {"text": 'a [nut] "here"', "n": 12}
    assert join_deltas(passed, "arguments") == find_item(passed).arguments


@pytest.mark.parametrize("window", [8, None])
async def test_changed_reasoning_loses_its_signature(window: int | None) -> None:
    """The vendor would reject it."""
    deltas = [
        ContentDeltaEvent(0, "a walnut", "text", "reasoning"),
        ContentDeltaEvent(0, "sealed", "signature", "reasoning"),
    ]
    start = ContentStartedEvent(index=0, kind="reasoning")
    events = complete([start, *deltas, ContentFinishedEvent(index=0), END])

    changed = await pass_by(WordSpy(window=window), events)
    kept = await pass_by(WordSpy("pecan", window), events)

    assert find_item(changed) == ReasoningContent(text="a [nut]")
    assert join_deltas(changed, "signature") == ""
    assert find_item(kept).signature == join_deltas(kept, "signature") == "sealed"


@pytest.mark.parametrize("window", [8, None])
async def test_vendor_data_do_not_repeat_what_was_replaced(window: int | None) -> None:
    """Nor do citations, nor events that only the vendor knows."""
    native = Native(protocol="x", data='{"logprobs": "walnut"}')
    citation = Citation(start=0, end=3, cited_text="a walnut", native=native)
    content = TextualContent("a walnut", citations=(citation,), native=native)
    events = complete(
        [
            ContentStartedEvent(index=0, kind="text"),
            NativeEvent(kind="x", native=native),
            ContentDeltaEvent(0, "a walnut"),
            ContentFinishedEvent(index=0, item=content, native=native, group_native=native),
            ResponseFinishedEvent(stop_reason=StopReason.ANSWERED, native=native),
        ]
    )

    passed = await pass_by(WordSpy(window=window), events)

    assert "walnut" not in repr(passed)
    assert find_item(passed).citations == (Citation(cited_text="a [nut]"),)


@pytest.mark.parametrize("window", [8, None])
async def test_a_refusal_ends_the_stream_before_the_word(window: int | None) -> None:
    guard = watch(WordSpy(window=window, refuses=True))
    passed: list[StreamEvent] = []

    async def pass_all() -> None:
        for event in tell(*"All is well, but a walnut"):
            passed.extend(await guard.feed([event]))

    with pytest.raises(GuardError, match="'spy' refused the answer: it has a nut"):
        await pass_all()

    assert "wal" not in join_deltas(passed)


async def test_of_a_failed_answer_the_examined_rest_is_delivered() -> None:
    events = tell(*"All is well, a walnut")[:-2]
    spies = (WordSpy("walnut"), WordSpy("walnut", None), WordSpy("fig", None))

    results = []
    for guard in map(watch, spies):
        passed = [each for event in events for each in await guard.feed([event])]
        results.append(join_deltas([*passed, *await guard.give_up()]))

    assert results == ["All is well, a [nut]", "", "All is well, a walnut"]


@pytest.mark.parametrize("window", [8, None])
@pytest.mark.parametrize(
    "events",
    [
        [
            ContentStartedEvent(index=0, kind="text"),
            ContentCitedEvent(index=0, citation=Citation(cited_text="a walnut")),
        ],
        [
            ContentStartedEvent(index=0, kind="text"),
            ContentFinishedEvent(index=0, item=TextualContent("a walnut")),
        ],
        [
            ContentStartedEvent(index=0, kind="invocation", invocation_id="1", name="send"),
            ContentDeltaEvent(0, '{"a": "w\\u0061lnut"}', "arguments"),
        ],
        [
            ContentStartedEvent(index=0, kind="invocation", invocation_id="1", name="send"),
            ContentDeltaEvent(0, '{"a": "w\\u0061lnut"}', "arguments"),
            ContentFinishedEvent(index=0),
        ],
    ],
    ids=["citation", "finished without pieces", "unfinished call", "finished call"],
)
async def test_nothing_of_a_failed_answer_passes_unexamined(
    events: list[StreamEvent], window: int | None
) -> None:
    guard = watch(WordSpy(window=window))

    passed = [each for event in complete(events) for each in await guard.feed([event])]

    shown = repr([*passed, *await guard.give_up()])
    assert "walnut" not in shown
    assert "w\\\\u0061lnut" not in shown


async def test_arguments_with_repeated_keys_are_delivered_as_they_were_examined() -> None:
    start = ContentStartedEvent(index=0, kind="invocation", invocation_id="1", name="send")
    arguments = ContentDeltaEvent(0, '{"a": "walnut", "a": "none"}', "arguments")
    events = complete([start, arguments, ContentFinishedEvent(index=0), END])

    for window in (8, None):
        passed = await pass_by(WordSpy(window=window), events)

        assert join_deltas(passed, "arguments") == find_item(passed).arguments == '{"a":"none"}'


@pytest.mark.parametrize(
    "verdict", [[None], 7, "walnut"], ids=["no redaction", "no sequence", "a text"]
)
async def test_a_guard_that_fails_lets_nothing_pass(verdict: Any) -> None:
    """Its error names the guard, and has nothing of the text."""

    class Broken:
        window = None

        async def examine(self, inspection: Any) -> Any:
            return verdict

    with pytest.raises(ConverseError, match="The guard 'spy' cannot examine the answer") as caught:
        await pass_by(Broken(), tell("a walnut"))

    assert "walnut" not in str(caught.value)
