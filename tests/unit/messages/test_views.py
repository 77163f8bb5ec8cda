"""Ways to look at canisters without changing them."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import canisters as any_canisters
from support.quality.working import measure
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import (
    CacheHint,
    ImageContent,
    Native,
    ReasoningContent,
    TextualContent,
)
from vibe_llms.messages.views import (
    has_calls,
    list_call_names,
    list_content_classes,
    list_plain_texts,
    match_results,
    media_of,
    pairs_of,
    text_of,
    usage_of,
)


def test_text_is_what_was_said_aloud() -> None:
    """Reasoning and media are left out; what is said in one go joins, all else with a gap."""
    picture = ImageContent(mime_type="image/png", data=b"x")
    first = UserCanister([TextualContent("Wh"), picture, TextualContent("at?")])
    silent = AssistantCanister([ReasoningContent(text="Hm.")])
    answer = AssistantCanister([ReasoningContent(text="Hm."), TextualContent("A picture.")])

    assert text_of(first) == "Wh\n\nat?"
    assert text_of([first, silent, answer]) == "Wh\n\nat?\n\nA picture."
    assert media_of([first, answer]) == (picture,)


def test_what_a_model_says_in_one_go_is_one_text() -> None:
    """Vendors part it where it cites; what it says after more thought is another text."""
    contents = ("They say ", "so.", ReasoningContent(text="Hm."), "", "But no", ".")
    items = [TextualContent(each) if isinstance(each, str) else each for each in contents]

    assert text_of(AssistantCanister(items)) == "They say so.\n\nBut no."


def _call(identity: str) -> InvocationCanister:
    return InvocationCanister(invocation_id=identity, name="weather")


def _result(identity: str, text: str = "") -> ResultCanister:
    return ResultCanister(text, invocation_id=identity)


def test_results_pair_in_whatever_order_they_come() -> None:
    """Calls made side by side are paired by id, and an owed result is None."""
    one, two, three = _call("1"), _call("2"), _call("3")
    result_one, result_two = _result("1"), _result("2")

    pairs = pairs_of([one, two, three, result_two, result_one])

    assert [pair.invocation for pair in pairs] == [one, two, three]
    assert [pair.result for pair in pairs] == [result_one, result_two, None]


def test_an_id_may_be_used_again_in_a_later_turn() -> None:
    """Some vendors count their calls anew in each turn; each result finds its own."""
    sequence = [_call("0"), _result("0", "dry"), _call("0"), _result("0", "wet")]

    pairs = pairs_of(sequence)

    assert [pair.invocation for pair in pairs] == [sequence[0], sequence[2]]
    assert [pair.result for pair in pairs] == [sequence[1], sequence[3]]


def test_a_result_belongs_to_the_latest_answer_with_an_open_call() -> None:
    """An interrupted call stays open if its id is used again; in one answer, the first is first."""
    interrupted, question = _call("0"), UserCanister("Again!")
    one, two = _call("0"), _call("0")
    results = [_result("0", "dry"), _result("0", "wet")]

    pairs = pairs_of([interrupted, question, one, two, *results])

    assert [pair.result for pair in pairs] == [None, *results]
    assert match_results([interrupted, question, one, results[0]]) == {2: 3}


def test_a_result_before_its_invocation_answers_nothing() -> None:
    """Orphans pair with nothing."""
    assert [pair.result for pair in pairs_of([_result("1"), _call("1"), _result("2")])] == [None]


def test_usage_counts_each_turn_once() -> None:
    """All canisters of a turn carry what the whole turn used; the sum counts it once."""

    def say(turn: str | None, tokens: int | None) -> AssistantCanister:
        usage = None if tokens is None else Usage(output_tokens=tokens)
        return AssistantCanister(
            "hi", turn_id=turn, origin=Origin(provider="p", model="m", usage=usage)
        )

    assert usage_of([say("a", 5), say("a", 5), say("b", 7), say(None, 1)]) == Usage(
        output_tokens=13
    )
    assert usage_of([UserCanister("hi"), say("a", None)]) is None


def test_the_classes_of_contents_are_those_of_each_conversation() -> None:
    """Also of one that is asked about again, after others, and with media."""
    texts = tuple(UserCanister(str(number)) for number in range(100))
    hinted = (*texts, UserCanister(("a", CacheHint())))
    pictured = (*texts, UserCanister(ImageContent(data=b"\x89PNG")))

    for _ in range(2):
        assert list_content_classes(texts) == {TextualContent}
        assert list_content_classes(texts) == {TextualContent}
        assert list_content_classes(hinted) == {TextualContent, CacheHint}
        assert list_content_classes(pictured) == {TextualContent, ImageContent}
        assert list_content_classes(()) == set()
        assert list_content_classes(iter(texts)) == {TextualContent}


def test_media_are_not_kept_for_the_classes_of_their_conversation() -> None:
    picture = ImageContent(data=b"\x89PNG")
    reference = weakref.ref(picture)
    list_content_classes((*(UserCanister("a") for _ in range(100)), UserCanister(picture)))

    del picture

    assert reference() is None


@given(said=st.lists(any_canisters, max_size=8), more=st.lists(any_canisters, max_size=4))
def test_a_conversation_that_goes_on_is_known_as_if_it_were_new(
    said: list[AnyCanister], more: list[AnyCanister]
) -> None:
    """Its texts, the classes of its contents, and the names of its calls."""
    begun = (*(UserCanister(str(number)) for number in range(20)), *said)
    list_content_classes(begun)
    longer = (*begun, *more)

    ensure_known(longer)


def test_native_data_and_calls_of_the_beginning_are_known_later() -> None:
    """When the new part has none of them."""
    kept = AssistantCanister("Kept.", native=Native(protocol="p", data='{"id":"1"}'))
    begun = (*(UserCanister(str(number)) for number in range(20)), kept, _call("1"), _result("1"))
    list_content_classes(begun)

    ensure_known((*begun, AssistantCanister("Yes."), UserCanister("And?")))


def ensure_known(longer: tuple[AnyCanister, ...]) -> None:
    """Compare what is known of a conversation with the same as a list, which is not remembered."""
    for allows_native in (False, True):
        assert list_plain_texts(longer, allows_native=allows_native) == list_plain_texts(
            list(longer), allows_native=allows_native
        )
    assert list_content_classes(longer) == list_content_classes(list(longer))
    assert list_call_names(longer) == list_call_names(list(longer))
    assert has_calls(longer) == has_calls(list(longer))


def test_only_the_new_part_of_a_conversation_is_looked_through() -> None:
    """A turn costs no line of code for an earlier message."""
    begun = tuple(UserCanister(str(number)) for number in range(1_000))
    list_content_classes(begun)
    longer = (*begun, AssistantCanister("Yes."), UserCanister("And?"))

    lines, _ = measure(lambda: list_plain_texts(longer))

    assert lines < 100
    assert list_plain_texts(longer)[-3:] == ["999", "Yes.", "And?"]
