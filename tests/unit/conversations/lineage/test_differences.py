"""Differences of two conversations: the common beginning, then turn by turn."""

from __future__ import annotations

import attrs

from support.stores.talks import call, exchange, fork, make_origin, save
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.lineage.differences import compare_conversations, compare_words
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import ReasoningContent, TextualContent


def test_forks_share_a_beginning_and_differ_turn_by_turn() -> None:
    store = MemoryStore()
    first = save(store, [*exchange("one"), *exchange("two"), *exchange("three")])
    second = fork(store, first, [*exchange("zwei"), *exchange("three")], at=2)
    found = compare_conversations(store, first, second)
    assert (found.common, found.common_turns, found.shared) == (2, 1, 2)
    assert found.last_common is not None
    assert found.last_common.text == "one!"
    (turn,) = found.turns
    assert turn.first is not None
    assert turn.first.number == 2
    texts = [
        (each.first and each.first.text, each.second and each.second.text) for each in turn.messages
    ]
    assert texts == [("two", "zwei"), ("two!", "zwei!")]
    assert [(each.first_index, each.second_index) for each in turn.messages] == [(2, 2), (3, 3)]


def test_an_inserted_turn_is_not_a_change_of_all_later_ones() -> None:
    store = MemoryStore()
    first = save(store, [*exchange("one"), *exchange("three")])
    second = save(store, [*exchange("one"), *exchange("two"), *exchange("three")])
    found = compare_conversations(store, first, second)
    assert [(turn.first, turn.second and turn.second.number) for turn in found.turns] == [(None, 2)]
    assert found.shared == 0


def test_models_times_and_signatures_are_no_differences() -> None:
    store = MemoryStore()
    reasoning = ReasoningContent(text="Hm.", signature="abc")
    answer = AssistantCanister([reasoning, TextualContent("Yes.")], origin=make_origin())
    other = AssistantCanister(
        [attrs.evolve(reasoning, signature="xyz"), TextualContent("Yes.")],
        origin=make_origin("claude-haiku-4-5"),
        turn_id="t",
    )
    first = save(store, [UserCanister("Is it?"), answer])
    second = save(store, [UserCanister("Is it?"), other])
    assert compare_conversations(store, first, second).turns == ()
    third = save(
        store,
        [UserCanister("Is it?"), attrs.evolve(other, id="z", content=[TextualContent("No.")])],
    )
    assert len(compare_conversations(store, first, third).turns) == 1


def test_a_result_or_an_argument_is_a_difference() -> None:
    store = MemoryStore()
    first = save(store, call("How many?", "a", result="1"))
    second = save(store, call("How many?", "a", result="2"))
    (turn,) = compare_conversations(store, first, second).turns
    assert [each.first_index for each in turn.messages] == [2, 3]


def test_messages_of_different_roles_are_not_paired() -> None:
    store = MemoryStore()
    first = save(store, call("How many?", "a"))
    second = save(store, exchange("How many?"))
    (turn,) = compare_conversations(store, first, second).turns
    sides = [(each.first_index, each.second_index) for each in turn.messages]
    assert sides == [(1, None), (2, None), (3, None), (None, 1)]


def test_frequent_turns_are_no_reason_to_lose_others() -> None:
    """In a long conversation, frequent turns do not decide what is equal."""
    store = MemoryStore()
    turns = [each for _ in range(100) for each in exchange("go on")]
    other = [each for n in range(100) for each in exchange("go on" if n % 2 else "stop")]
    found = compare_conversations(store, save(store, turns), save(store, [*other, *turns]))
    texts = [each.second.text for turn in found.turns for each in turn.messages if each.second]
    assert texts.count("stop") == 50


def test_words_are_compared_and_joined_again() -> None:
    first, second = "A stack, a heap.\nDone.", "A queue, a heap.\nDone!"
    pieces = compare_words(first, second)
    assert ("removed", "stack") in pieces
    assert ("added", "queue") in pieces
    for texts, skipped in ((first, "added"), (second, "removed")):
        assert "".join(text for change, text in pieces if change != skipped) == texts
    assert compare_words("same", "same") == (("equal", "same"),)
    assert compare_words("", "") == ()


def test_a_long_text_is_compared_by_lines() -> None:
    first = "a b\n" * 8_000
    pieces = compare_words(first + "end", first + "END")
    assert pieces[-2:] == (("removed", "end"), ("added", "END"))
