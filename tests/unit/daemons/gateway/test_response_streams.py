"""What is heard of a streamed response does not depend on how its bytes were cut."""

from __future__ import annotations

import itertools
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.responses.response_streams import ResponseReader, select_storable
from vibe_llms.foundation.limits import Limits

WORDS = ["The ", "North ", "Sea", "."]


def write(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def compose_stream() -> bytes:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
    whole = {**item, "status": "completed", "content": [{"type": "output_text", "text": "Sea"}]}
    place = {"output_index": 0, "content_index": 0}
    delta = {"type": "response.output_text.delta", **place}
    return write(
        {"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        *({**delta, "delta": word} for word in WORDS),
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {
            "type": "response.completed",
            "response": {"id": "resp_1", "status": "completed", "output": [whole]},
        },
    )


@given(cuts=st.lists(st.integers(0, len(compose_stream())), max_size=12))
def test_any_cutting_gives_the_same_response(cuts: list[int]) -> None:
    stream, hearer = compose_stream(), ResponseReader(Limits())
    edges = [0, *sorted(cuts), len(stream)]
    for start, end in itertools.pairwise(edges):
        hearer.feed(stream[start:end])
    assert hearer.is_over
    assert hearer.compose()["status"] == "completed"
    assert hearer.compose()["output"][0]["content"][0]["text"] == "Sea"


@given(end=st.integers(0, len(compose_stream())))
def test_any_beginning_keeps_the_text_that_has_come(end: int) -> None:
    hearer = ResponseReader(Limits())
    hearer.feed(compose_stream()[:end])
    if hearer.response is None or hearer.is_over:
        return
    for item in select_storable(hearer.compose()["output"]):
        text = item["content"][0]["text"]
        assert text
        assert "".join(WORDS).startswith(text) or item["status"] == "completed"


def test_what_was_cut_and_is_no_text_is_left_out() -> None:
    call = {"id": "fc_1", "type": "function_call", "arguments": '{"a', "status": "in_progress"}
    assert select_storable([call, {**call, "status": "completed"}]) == [
        {**call, "status": "completed"}
    ]
