"""An account that nobody asked for is taken out of a stream, and nothing else is touched."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.usage_filter import UsageFilter

ACCOUNT = b'data: {"id":"c","choices":[],"usage":{"total_tokens":3}}'
ACCOUNTS = [
    ACCOUNT,
    ACCOUNT.replace(b"data: ", b"data:"),
    b": a comment\nid: 7\nevent: usage\n" + ACCOUNT + b"\nretry: 3",
    b'data: {\ndata:  "choices": [ ],\ndata:  "usage": {}\ndata: }',
]
LONG = b"data: " + b"x" * 40_000
EVENTS = [
    b'data: {"choices":[{"delta":{"content":"a"}}]}',
    b'data: {"choices":[]}',
    b": a comment",
    b"data: [DONE]",
    LONG,
    *ACCOUNTS,
]
ENDS = [b"\n\n", b"\r\n\r\n", b"\r\r"]


@given(
    st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(ENDS)), max_size=8),
    st.binary(max_size=5),
    st.lists(st.integers(0, 90_000), max_size=12),
)
def test_only_accounts_are_taken_out(
    events: list[tuple[bytes, bytes]], rest: bytes, cuts: list[int]
) -> None:
    """However the bytes are split."""
    data = b"".join(event + end for event, end in events) + b"data: " + rest
    expected = b"".join(event + end for event, end in events if event not in ACCOUNTS)
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    usage_filter = UsageFilter()
    told = b"".join(usage_filter.feed(data[begin:end]) for begin, end in itertools.pairwise(places))
    assert told + usage_filter.finish() == expected + b"data: " + rest


def test_an_account_is_taken_out_though_it_lacks_its_end() -> None:
    usage_filter = UsageFilter()
    assert usage_filter.feed(EVENTS[0] + b"\n\n" + ACCOUNT) == EVENTS[0] + b"\n\n"
    assert usage_filter.finish() == b""


def test_an_event_without_end_is_not_held_back() -> None:
    usage_filter = UsageFilter()
    usage_filter.feed(b"data: ")
    told = sum(len(usage_filter.feed(b"x" * 10_000)) for _ in range(20))
    assert told > 190_000
