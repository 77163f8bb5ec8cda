"""The usage of a passthrough answer is read, wherever the vendor reports it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vibe_llms.daemons.gateway.usage_extraction import UsageExtractor, read_usage
from vibe_llms.foundation.limits import Limits

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
OTHER = {"prompt_tokens": 30, "completion_tokens": 40, "total_tokens": 70}


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"data": [1.5, 2.5], "usage": USAGE}, 3),
        ({"usage": USAGE, "data": [1.5, 2.5]}, 3),
        ({"usage": USAGE, "data": [{"usage": OTHER}]}, 3),
        ({"usage": USAGE, "data": {"usage": OTHER}}, 3),
        ({"usage": USAGE, "text": '"usage":{"prompt_tokens":9}}'}, 3),
        ({"usage": USAGE, "field": "usage"}, 3),
        ({"data": {"usage": OTHER}}, None),
        ({"data": [{"usage": OTHER}]}, None),
        ({"usage": None}, None),
        ({"data": []}, None),
        ({"meta": {"billed_units": {"input_tokens": 5.0}}}, 5),  # Cohere's
        ({"meta": {"billed_units": {"search_units": 1}}}, None),
        ({"meta": {"billed_units": 3}}, None),
        ({"text": '"billed_units":{"input_tokens":5}'}, None),
    ],
)
def test_usage_is_read_wherever_its_field_is(body: dict[str, Any], tokens: int | None) -> None:
    """The field may come first or last; fields of inner objects and texts are not usage."""
    for indent in (None, 2):
        usage = read_usage("chat_completions", json.dumps(body, indent=indent).encode())

        assert (usage and usage.total_input_tokens) == tokens


def test_a_broken_answer_has_no_usage() -> None:
    """An answer that is cut off within its usage reports none."""
    body = json.dumps({"data": [], "usage": USAGE}).encode()

    assert read_usage("chat_completions", body[:-3]) is None


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": [], "usage": USAGE},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": USAGE},
        {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
            "x_groq": {"id": "r", "usage": USAGE},
        },
        {
            "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": USAGE}]
        },  # Moonshot
    ],
)
def test_usage_of_a_stream_is_read_wherever_a_vendor_reports_it(chunk: dict[str, Any]) -> None:
    extractor = UsageExtractor("chat_completions", Limits(), "sse")
    extractor.feed(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())

    usage = extractor.find_usage()

    assert usage is not None
    assert (usage.total_input_tokens, usage.total_output_tokens) == (3, 4)
    assert extractor.is_whole
