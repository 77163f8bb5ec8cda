"""Lone surrogates: valid JSON without a valid text, as models produce it if they are stopped within
a character.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.vendors.hostility import (
    PROTOCOLS,
    produce_body,
    produce_decoder,
    produce_streams,
    read_body,
)
from vibe_llms.dialects.decoding import decode_json
from vibe_llms.events.stream import ContentDeltaEvent, LossEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.views import text_of
from vibe_llms.testing.simulator.scripts import Say

codes = st.integers(0, 0xFFFF).map(chr) | st.sampled_from(["\ud83d", "\ude00", "\\", '"', "u"])


@given(st.lists(codes, max_size=8).map("".join))
def test_only_lone_surrogates_are_replaced(text: str) -> None:
    """Surrogate pairs and escaped backslashes do not change, and the loss is reported."""
    value, losses = decode_json(json.dumps({"a": text}).encode())

    mended = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in _join(text))
    assert value == {"a": mended}
    assert bool(losses) is (mended != _join(text))


def _join(text: str) -> str:
    """Return the text with surrogate pairs as one character."""
    return json.loads(json.dumps(text))  # type: ignore[no-any-return]


@pytest.mark.parametrize("data", [b"{", b'{"a": "\\ud83d"', b'"\\x"'])
def test_invalid_json_stays_invalid(data: bytes) -> None:
    """The repair only affects surrogates."""
    with pytest.raises(msgspec.DecodeError):
        decode_json(data)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_a_response_with_a_lone_surrogate_is_read(protocol: str) -> None:
    """In every dialect, with a loss."""
    body = produce_body(protocol, Say("cut here")).replace(b"cut here", b"cut \\ud83d")

    response = read_body(protocol, body)

    assert "".join(text_of(canister) for canister in response.canisters) == "cut \ufffd"
    kinds = [loss.kind for loss in response.losses if "half" in loss.reason]
    assert kinds == [LossKind.COERCED]


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_invalid_utf_8_is_reported_as_such(protocol: str) -> None:
    """At any place of a stream, also in the middle of a text, and in a complete response."""
    refused = 0
    for frames in produce_streams(protocol):
        for number, (data, event) in enumerate(frames):
            for broken in _break_values(data):
                decoder = produce_decoder(protocol)
                for earlier in frames[:number]:
                    decoder.decode(*earlier)
                refused += _is_rejected(decoder, broken, event)
    assert refused > 20
    body = produce_body(protocol, Say("cut here")).replace(b"cut", b"c\xfft")
    with pytest.raises(ConverseError, match="utf-8"):
        produce_decoder(protocol).decode_response(body)


def _is_rejected(decoder: Any, data: bytes, event: str) -> bool:
    """Return whether an event raises our error; parts that are never read may contain anything."""
    try:
        decoder.decode(data, event)
    except ConverseError:
        return True
    return False


def _break_values(data: bytes) -> list[bytes]:
    """Yield the event with invalid UTF-8 in each text of its JSON, in turn."""
    places = [found.end() for found in re.finditer(rb'":"(?=[A-Za-z])', data)]
    return [data[:place] + b"\xff\xfe" + data[place:] for place in places]


def _frames(protocol: str, *texts: str) -> list[tuple[bytes, str]]:
    """Return a stream whose text arrives in these pieces, given as JSON without quotation marks."""
    marks = [f"m{number}" for number in range(len(texts))]
    frames = _STREAMS[protocol](marks)
    pieces = dict(zip(marks, texts, strict=True))
    written = []
    for data, event in frames:
        line = json.dumps(data)
        for mark, text in pieces.items():
            line = line.replace(f'"{mark}"', f'"{text}"')
        written.append((line.encode(), event))
    return written


def _stream_chat(marks: list[str]) -> list[tuple[Any, str]]:
    deltas = [{"choices": [{"index": 0, "delta": {"content": mark}}]} for mark in marks]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return [(each, "") for each in (*deltas, end)]


def _stream_gemini(marks: list[str]) -> list[tuple[Any, str]]:
    parts = [{"candidates": [{"content": {"parts": [{"text": mark}]}}]} for mark in marks]
    return [(each, "") for each in (*parts, {"candidates": [{"finishReason": "STOP"}]})]


def _stream_ollama(marks: list[str]) -> list[tuple[Any, str]]:
    lines = [
        {"model": "m", "message": {"role": "assistant", "content": mark}, "done": False}
        for mark in marks
    ]
    end = {"model": "m", "message": {"role": "assistant", "content": ""}, "done": True}
    return [(each, "") for each in (*lines, end | {"done_reason": "stop"})]


def _stream_messages(marks: list[str]) -> list[tuple[Any, str]]:
    block = {"type": "text", "text": ""}
    events: list[Any] = [
        {"type": "message_start", "message": {"id": "m", "model": "m", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": mark},
            }
            for mark in marks
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    return [(each, each["type"]) for each in events]


def _stream_responses(marks: list[str]) -> list[tuple[Any, str]]:
    place = {"output_index": 0, "content_index": 0, "item_id": "msg"}
    item = {"type": "message", "id": "msg", "role": "assistant", "status": "completed"}
    part = {"type": "output_text", "text": "", "annotations": []}
    response = {"id": "r", "model": "m", "object": "response", "output": []}
    events: list[Any] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": mark} for mark in marks),
        {"type": "response.completed", "response": {**response, "status": "completed"}},
    ]
    return [(each, each["type"]) for each in events]


def _stream_bedrock(marks: list[str]) -> list[tuple[Any, str]]:
    deltas = [{"contentBlockIndex": 0, "delta": {"text": mark}} for mark in marks]
    return [
        ({"role": "assistant"}, "messageStart"),
        *((each, "contentBlockDelta") for each in deltas),
        ({"contentBlockIndex": 0}, "contentBlockStop"),
        ({"stopReason": "end_turn"}, "messageStop"),
        ({"metrics": {"latencyMs": 7}}, "metadata"),
    ]


_STREAMS: dict[str, Any] = {
    "bedrock": _stream_bedrock,
    "chat_completions": _stream_chat,
    "generate_content": _stream_gemini,
    "messages": _stream_messages,
    "ollama_chat": _stream_ollama,
    "responses": _stream_responses,
}

HIGH, LOW = r"\ud83d", r"\ude00"


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["One ", HIGH, LOW, " more"], "One \U0001f600 more"),
        (["One " + HIGH, LOW + " more", "."], "One \U0001f600 more."),
        ([HIGH, LOW + HIGH, LOW + HIGH, LOW], "\U0001f600" * 3),
        (["One", HIGH, LOW], "One\U0001f600"),
        (["One ", HIGH, "more"], "One \ufffdmore"),
        (["One ", "so " + HIGH], "One so \ufffd"),
        (["One ", LOW, HIGH], "One \ufffd\ufffd"),
        (["One " + HIGH, r"\"" + LOW, "."], 'One \ufffd"\ufffd.'),
        (["One " + HIGH, HIGH, LOW], "One \ufffd\U0001f600"),
        (["One ", r"\\ud83d", r"\\ude00"], r"One \ud83d\ude00"),
    ],
)
def test_a_surrogate_pair_in_two_pieces_of_a_stream_is_joined(
    protocol: str, texts: list[str], expected: str
) -> None:
    """Without its other half, the loss is reported at its position as soon as it is certain."""
    decoder = produce_decoder(protocol)
    events = [event for frame in _frames(protocol, *texts) for event in decoder.decode(*frame)]
    events += decoder.finish()

    text = "".join(event.text for event in events if isinstance(event, ContentDeltaEvent))
    assert text == expected
    losses = [event for event in events if isinstance(event, LossEvent)]
    assert bool([each for each in losses if "half" in each.loss.reason]) is ("\ufffd" in expected)
