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

TALK_CALLS = {
    "chat_completions": 7,
    "generate_content": 39,
    "messages": 7,
    "ollama_chat": 7,
    "responses": 23,
}
TOOLS_CALLS = {
    "chat_completions": 24,
    "generate_content": 59,
    "messages": 32,
    "ollama_chat": 48,
    "responses": 26,
}
"""Calls of functions, those in C included, for each message: a text, or a call and its result."""

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
