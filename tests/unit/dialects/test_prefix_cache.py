"""The beginning of a client's earlier request is not read again, and gives the same canisters."""

from __future__ import annotations

import copy
import json
import operator
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import attrs
import pytest

from support.vendors.long_talks import (
    PROTOCOLS,
    normalize,
    write_body,
    write_conversation,
    write_message,
)
from vibe_llms.dialects.prefix_cache import (
    CHANGEABLE_MESSAGES,
    MIN_MESSAGES,
    ClientPrefixes,
    PrefixCache,
)
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import AnyCanister

MOMENT = datetime(2026, 11, 29, tzinfo=UTC)
TURNS = 20


def read(
    protocol: str, messages: list[Any], cache: ClientPrefixes | None, **fields: Any
) -> tuple[AnyCanister, ...]:
    """Return the canisters of a request; its messages are copied, as those of a new body."""
    body = write_body(protocol, copy.deepcopy(messages)) | fields
    canisters: tuple[AnyCanister, ...] = normalize(protocol)(body, cache=cache).value.canisters
    if cache is not None:
        cache.commit()
    return canisters


def mask(canisters: Sequence[AnyCanister]) -> list[AnyCanister]:
    """Return canisters without generated values: ids and times."""
    turns: dict[str | None, str] = {}
    masked = []
    for canister in canisters:
        changes: dict[str, Any] = {"id": "", "timestamp": MOMENT}
        if canister.turn_id is not None:
            changes["turn_id"] = turns.setdefault(canister.turn_id, str(len(turns)))
        masked.append(attrs.evolve(canister, **changes))
    return masked


@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_that_continues_keeps_its_canisters(protocol: str, with_tools: bool) -> None:
    cache = PrefixCache().open("a")
    talk = write_conversation(protocol, TURNS + 4, with_tools=with_tools)
    before = read(protocol, talk[: 2 * TURNS + 1], cache)

    for count in range(2 * TURNS + 3, len(talk) + 1, 2):
        now = read(protocol, talk[:count], cache)

        assert len(now) == len(before) + 2
        assert all(new is old for new, old in zip(now, before, strict=False))
        assert mask(now) == mask(read(protocol, talk[:count], None))
        assert len({canister.id for canister in now}) == len(now)
        before = now


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_last_messages_that_change_are_read_again(protocol: str) -> None:
    """Such as the cache marks of prompts, which clients move to the new last messages."""
    cache = PrefixCache().open("a")
    talk = write_conversation(protocol, TURNS, with_tools=False)
    marked = [*talk[:-3], *({**each, "mark": True} for each in talk[-3:])]
    before = read(protocol, marked, cache)

    now = read(protocol, talk, cache)

    kept = len(talk) - CHANGEABLE_MESSAGES
    assert all(new is old for new, old in zip(now[:kept], before, strict=False))
    assert not {*map(id, now[kept:])} & {*map(id, before[kept:])}
    assert mask(now) == mask(read(protocol, talk, None))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_another_beginning_is_read_again(protocol: str) -> None:
    cache = PrefixCache().open("a")
    talk = write_conversation(protocol, TURNS, with_tools=True)
    before = read(protocol, talk, cache)
    edited = copy.deepcopy(talk)
    edited[9] = write_message(protocol, "user", "Something else.")

    now = read(protocol, [*edited, write_message(protocol, "user", "And?")], cache)

    assert not {*map(id, now)} & {*map(id, before)}
    assert mask(now)[:-1] == mask(read(protocol, edited, None))


HEADS: dict[str, tuple[str, Any, Any]] = {
    "generate_content": ("systemInstruction", {"parts": [{"text": "Be."}]}, None),
    "messages": ("system", "Be brief.", "Be polite."),
    "responses": ("instructions", "Be brief.", "Be polite."),
}


@pytest.mark.parametrize("protocol", HEADS)
def test_other_instructions_beside_the_messages_are_another_beginning(protocol: str) -> None:
    cache = PrefixCache().open("a")
    talk = write_conversation(protocol, TURNS, with_tools=False)
    field, first, second = HEADS[protocol]
    before = read(protocol, talk, cache, **{field: first})

    now = read(protocol, talk, cache, **{field: second})

    assert not {*map(id, now)} & {*map(id, before)}
    assert mask(now) == mask(read(protocol, talk, None, **{field: second}))


def test_values_that_are_equal_in_python_are_distinguished() -> None:
    """In Python ``True`` equals 1, and 1 equals 1.0."""
    cache = PrefixCache().open("a")
    for value in (1, True, 1.0):
        talk = write_conversation("messages", TURNS, with_tools=True)
        talk[1]["content"][0]["input"] = {"n": value}

        canisters = read("messages", talk, cache)

        assert mask(canisters) == mask(read("messages", talk, None))


def test_clients_do_not_share_the_cache() -> None:
    cache = PrefixCache()
    talk = write_conversation("messages", TURNS, with_tools=False)
    before = read("messages", talk, cache.open("a"))

    now = read("messages", talk, cache.open("b"))

    assert not {*map(id, now)} & {*map(id, before)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_invalid_message_is_located_in_the_whole_request(protocol: str) -> None:
    cache = PrefixCache().open("a")
    talk = write_conversation(protocol, TURNS, with_tools=False)
    read(protocol, talk, cache)

    with pytest.raises(RequestError) as known:
        read(protocol, [*talk, 7], cache)
    with pytest.raises(RequestError) as whole:
        read(protocol, [*talk, 7], None)

    assert (known.value.path, str(known.value)) == (whole.value.path, str(whole.value))


def test_short_conversations_are_not_cached() -> None:
    cache = PrefixCache()
    talk = write_conversation("messages", TURNS, with_tools=False)

    read("messages", talk[: MIN_MESSAGES - 1], cache.open("a"))

    assert cache.size == 0


def test_the_cache_is_bounded_in_total_and_for_each_client() -> None:
    cache = PrefixCache(limit=400_000, share=150_000)
    sizes = []
    for number in range(60):
        talk = write_conversation("messages", TURNS, with_tools=False)
        talk[0]["content"] = f"{number} {'x' * 10_000}"
        read("messages", talk, cache.open(f"client {number % 8}"))
        sizes.append(cache.size)

    assert max(sizes) <= 400_000
    assert min(sizes[20:]) > 200_000
    one = PrefixCache(limit=400_000, share=150_000)
    for number in range(20):
        talk = write_conversation("messages", TURNS, with_tools=False)
        talk[0]["content"] = f"{number} {'x' * 10_000}"
        read("messages", talk, one.open("a"))
    assert 0 < one.size <= 150_000


def test_conversations_larger_than_a_clients_share_are_not_cached() -> None:
    cache = PrefixCache(share=10_000)
    talk = write_conversation("messages", TURNS, with_tools=False)

    read("messages", talk, cache.open("a"))

    assert cache.size == 0


def test_a_conversation_that_continues_counts_once() -> None:
    cache = PrefixCache()
    talk = write_conversation("messages", 40, with_tools=False)
    read("messages", talk, cache.open("a"))
    size = cache.size

    for _ in range(10):
        talk += write_conversation("messages", 1, with_tools=False)[1:]
        read("messages", talk, cache.open("a"))

    assert size < cache.size < 2 * size


def test_conversations_that_begin_alike_are_limited() -> None:
    cache = PrefixCache()
    for number in range(100):
        talk = write_conversation("messages", TURNS, with_tools=False)
        talk[5]["content"] = f"Another {number}."
        read("messages", talk, cache.open("a"))
        if number == 0:
            size = cache.size

    assert cache.size <= 17 * size


def test_an_interrupted_request_is_not_cached() -> None:
    """If the client disconnects, the thread that reads the request is ended anywhere."""
    cache = PrefixCache()
    body = write_body("messages", write_conversation("messages", TURNS, with_tools=False))

    normalize("messages")(body, cache=cache.open("a"))

    assert cache.size == 0


def test_the_least_recently_used_entry_is_dropped_first() -> None:
    cache = PrefixCache(share=300_000)
    talks = [write_conversation("messages", TURNS, with_tools=False) for _ in range(3)]
    for number, talk in enumerate(talks):
        talk[0]["content"] = f"{number} {'x' * 10_000}"
    first = read("messages", talks[0], cache.open("a"))
    read("messages", talks[1], cache.open("a"))
    assert read("messages", talks[0], cache.open("a"))[0] is first[0]

    read("messages", talks[2], cache.open("a"))

    assert read("messages", talks[0], cache.open("a"))[0] is first[0]


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_integers_of_more_than_64_bits_are_read_without_the_cache(
    protocol: str, index: int
) -> None:
    cache = PrefixCache()
    talk = write_conversation(protocol, TURNS, with_tools=False)
    talk[index] = {**talk[index], "mark": 2**70}

    first = read(protocol, talk, cache.open("a"))

    assert read(protocol, talk, cache.open("a"))[0] is not first[0]
    assert mask(first) == mask(read(protocol, talk, None))
    assert cache.size == 0
    fitting = [*talk[:index], *write_conversation(protocol, TURNS, with_tools=False)[index:]]
    for messages in (talk, fitting):
        body = json.dumps(write_body(protocol, messages)).encode()
        first = read(protocol, messages, cache.open("a", body))
        is_same = read(protocol, messages, cache.open("a", body))[0] is first[0]
        assert is_same is (messages is fitting)


def test_texts_that_are_not_ascii_count_for_more_memory() -> None:
    sizes = []
    for text in ("ee", "é"):  # of as many bytes
        cache = PrefixCache()
        talk = write_conversation("messages", TURNS, with_tools=False)
        talk[3]["content"] = text
        body = json.dumps(write_body("messages", talk), ensure_ascii=False).encode()
        read("messages", talk, cache.open("a", body))
        sizes.append(cache.size)

    assert sizes[0] < sizes[1]


@pytest.mark.parametrize(("first", "second"), [(1, True), (0, 0.0), (1, "1")])
def test_values_that_python_calls_equal_are_different(first: object, second: object) -> None:
    cache = PrefixCache().open("a")
    talk = write_conversation("chat_completions", TURNS, with_tools=False)
    before = read("chat_completions", [{**talk[0], "mark": first}, *talk[1:]], cache)

    after = read("chat_completions", [{**talk[0], "mark": second}, *talk[1:]], cache)

    assert before[0] is not after[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_is_encoded_when_another_one_begins_alike(protocol: str) -> None:
    cache = PrefixCache()
    talk = write_conversation(protocol, TURNS, with_tools=True)
    read_before: tuple[AnyCanister, ...] = ()
    for turns in range(3):
        messages = [*talk, *write_conversation(protocol, turns, with_tools=False)[1:]]
        body = json.dumps(write_body(protocol, messages)).encode()

        canisters = read(protocol, messages, cache.open("a", body))

        kept = len(read_before) - CHANGEABLE_MESSAGES
        assert all(map(operator.is_, canisters[: max(kept, 0)], read_before))
        assert mask(canisters) == mask(read(protocol, messages, None))
        read_before = canisters
