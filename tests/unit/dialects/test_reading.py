"""Reading a long conversation takes few calls for each message, and almost none if it continues."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from support.vendors.long_talks import (
    PROTOCOLS,
    normalize,
    write_body,
    write_call,
    write_conversation,
)
from vibe_llms.dialects.prefix_cache import PrefixCache
from vibe_llms.dialects.serving import PlainTranslation
from vibe_llms.messages.codec.canister_lines import encode_canisters
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.views import has_calls, list_call_names, list_plain_texts

TALK_CALLS = {
    "chat_completions": 8,
    "generate_content": 39,
    "messages": 8,
    "ollama_chat": 8,
    "responses": 24,
}
TOOLS_CALLS = {
    "chat_completions": 21,
    "generate_content": 59,
    "messages": 29,
    "ollama_chat": 46,
    "responses": 24,
}
"""Calls of functions, those in C included, for each message: a text, or a call and its result.

One call notes the text for the dialect that writes it.
"""

AT_MOST_KNOWN = 0.2

_PASSING = re.compile(r'"(id|turn_id|timestamp)":"[^"]*"')
"""Fields of a canister that differ each time that it is read."""


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions are called, in Python and in C."""
    calls = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    former = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(former)
    return calls


def count_each(protocol: str, *, with_tools: bool) -> float:
    """Return the calls that one more message takes."""
    read = normalize(protocol)

    def count(turns: int) -> int:
        body = write_body(protocol, write_conversation(protocol, turns, with_tools=with_tools))
        read(body)  # what is made but once
        return count_calls(lambda: read(body))

    return (count(200) - count(100)) / 200


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_message_is_read_in_few_calls(protocol: str) -> None:
    assert count_each(protocol, with_tools=False) <= TALK_CALLS[protocol]
    assert count_each(protocol, with_tools=True) <= TOOLS_CALLS[protocol]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_message_that_was_read_before_takes_no_calls(protocol: str) -> None:
    read = normalize(protocol)

    def count(turns: int) -> int:
        cache = PrefixCache().open("a")
        talk = write_conversation(protocol, turns + 1, with_tools=True)
        read(write_body(protocol, talk[:-2]), cache=cache)
        cache.commit()
        body: dict[str, Any] = write_body(protocol, talk)
        return count_calls(lambda: read(body, cache=cache))

    count(20)
    assert (count(200) - count(100)) / 200 <= AT_MOST_KNOWN


@pytest.mark.parametrize("mark", [False, True])
@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_conversation_is_plain_if_it_has_only_texts(
    protocol: str, with_tools: bool, mark: bool
) -> None:
    """Else its media would not be checked, and the reasoning of other vendors would not return."""
    talk = write_conversation(protocol, 4, with_tools=with_tools)
    if mark:
        talk[2] = {**talk[2], "mark": True}

    normalized = normalize(protocol)(write_body(protocol, talk))

    canisters = normalized.value.canisters
    contents = {content.__class__ for canister in canisters for content in canister.content}
    has_native = any(canister.native is not None for canister in canisters)
    is_plain = contents == {TextualContent} and not has_native
    assert isinstance(normalized, PlainTranslation) == is_plain
    assert is_plain or mark or protocol != "chat_completions"


class _OtherDict(dict[str, Any]):
    """A message that is not read at once, as it is not a plain dictionary."""


@pytest.mark.parametrize("protocol", ["chat_completions", "messages", "ollama_chat"])
def test_texts_that_are_read_at_once_are_read_as_by_the_dialect(protocol: str) -> None:
    """Texts before and after calls and their results, and texts that are not ASCII."""
    talk = write_conversation(protocol, 3, with_tools=True)
    talk += write_conversation(protocol, 3, with_tools=False)
    talk += [*write_call(protocol, 9), *write_conversation(protocol, 1, with_tools=False)[1:]]
    talk += [*write_call(protocol, 9), {"role": "assistant", "content": "naïve"}]
    if protocol == "ollama_chat":  # a call that an answer leaves without a result
        call = {**write_call(protocol, 10)[0], "content": "I look."}
        late = {"role": "tool", "tool_name": "look", "content": "late"}
        talk += [call, {"role": "assistant", "content": "No."}, late]
    body = write_body(protocol, talk)
    others = {**body, "messages": [_OtherDict(each) for each in talk]}

    at_once, singly = (
        _PASSING.sub("", encode_canisters(normalize(protocol)(each).value.canisters).decode())
        for each in (body, others)
    )

    assert at_once == singly
    assert at_once.count('"text":"Answer') == 4


@pytest.mark.parametrize("mark", [False, True])
@pytest.mark.parametrize("with_tools", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_texts_that_a_reader_remembers_are_those_of_its_canisters(
    protocol: str, with_tools: bool, mark: bool
) -> None:
    """Also if the reader continues an earlier conversation, from before its last messages."""
    cache = PrefixCache().open("a")
    talk = write_conversation(protocol, 60, with_tools=with_tools)
    changed = [*talk[:-2], *write_conversation(protocol, 2, with_tools=not with_tools)[1:]]
    if mark:
        changed[-1] = {**changed[-1], "mark": True}

    for each in (talk, changed):
        canisters = normalize(protocol)(write_body(protocol, each), cache=cache).value.canisters
        cache.commit()

        remembered = list_plain_texts(canisters)
        copied = (canisters[0], *canisters[1:])
        assert copied is not canisters
        assert has_calls(canisters) == has_calls(copied)
        assert list_call_names(canisters) == list_call_names(copied)
        assert remembered == list_plain_texts(copied)
        assert remembered == list_plain_texts(copied, allows_native=True)
        assert len(remembered) == len(canisters)


def test_a_number_as_the_id_of_a_call_is_read_as_a_text() -> None:
    call = {**write_call("chat_completions", 1)[0]["tool_calls"][0], "id": "7"}
    talk = [
        {"role": "user", "content": "Look."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": 7, "content": "Rain."},
    ]

    *_, result = normalize("chat_completions")(write_body("chat_completions", talk)).value.canisters

    assert (result.invocation_id, result.name, result.text) == ("7", "look", "Rain.")
