"""What a kept response goes on from is said in its stream, however the bytes were split."""

from __future__ import annotations

import itertools

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.responses.response_streams import ContinuationWriter

STREAM = (
    b'event: response.created\ndata: {"type":"response.created","response":{"id":"r",'
    b'"previous_response_id":null}}\n\n'
    b'event: response.output_text.delta\r\ndata:  {"delta" : "\\"response\\""}\r\n\r\n'
    b": a comment\n\n"
    b'data: {"response":"none"}\n\ndata: {"response":\n\ndata: [DONE]\n\nrest'
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_only_what_a_response_says_of_itself_is_changed(cuts: list[int]) -> None:
    restater = ContinuationWriter({"previous_response_id": "before"})
    places = sorted({0, len(STREAM), *cuts})
    pieces = [STREAM[a:b] for a, b in itertools.pairwise(places)]
    told = b"".join(map(restater.feed, pieces)) + restater.finish()
    head, blank, rest = told.partition(b"\n\n")
    event = msgspec.json.decode(head.partition(b"data:")[2])
    assert event["response"] == {"id": "r", "previous_response_id": "before"}
    assert blank + rest == STREAM[STREAM.index(b"\n\n") :]
