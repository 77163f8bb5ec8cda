"""Responses of Chat Completions become canisters, streamed or complete."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.chat_completions import Decoder
from vibe_llms.events.stream import StreamEvent
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    ProviderFault,
    StreamTruncatedError,
)
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    StopReason,
)
from vibe_llms.messages.contents import (
    NativeContent,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.providers.assembly import Assembler

Chunk = dict[str, Any]


def assemble(events: Iterable[StreamEvent]) -> Assembler:
    """Assemble a response from events; the assembler checks their order."""
    assembler = Assembler(provider="vendor", model="model")
    for event in events:
        assembler.feed(event)
    return assembler


def read_stream(chunks: Iterable[Chunk | bytes]) -> Assembler:
    """Read a stream to its end."""
    decoder = Decoder(provider="vendor")
    events = [event for chunk in chunks for event in decoder.decode(chunk)]
    return assemble([*events, *decoder.finish()])


def read_whole(body: Chunk | bytes) -> Assembler:
    """Read a complete response."""
    return assemble(Decoder(provider="vendor").decode_response(body))


def delta(finish: str | None = None, **fields: Any) -> Chunk:
    """Make a chunk."""
    choice = {"index": 0, "delta": fields, "finish_reason": finish}
    return {"id": "chat-1", "model": "model-1", "choices": [choice]}


def call(**fields: Any) -> list[Chunk]:
    """Make a piece of an invocation, with the name and the arguments of the function."""
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    return [{**fields, "function": function}]


def outline(canisters: Iterable[AnyCanister]) -> list[Any]:
    """Return the contents of canisters, without ids and times."""
    return [
        (c.role, c.content)
        if not isinstance(c, InvocationCanister)
        else (c.role, c.invocation_id, c.name, c.arguments)
        for c in canisters
    ]


def cut(text: str, draw: st.DrawFn) -> list[str]:
    """Cut a text at any positions, also into empty pieces."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


@st.composite
def splits(draw: st.DrawFn) -> tuple[Chunk, list[Chunk]]:
    """Draw a complete message, and a stream of the same in pieces."""
    text, reasoning, refusal = (draw(st.text(max_size=12)) for _ in range(3))
    calls = [
        {"id": f"id-{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(
            draw(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text(max_size=9)), max_size=3))
        )
    ]
    word = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter", "odd"]))
    message = {
        "role": "assistant",
        "content": text or None,
        "refusal": refusal or None,
        "reasoning_content": reasoning,
        "tool_calls": calls or None,
    }
    pieces: list[Chunk] = [{"role": "assistant", "content": ""}]
    pieces += [{"reasoning_content": piece} for piece in cut(reasoning, draw)]
    pieces += [{"content": piece} for piece in cut(text, draw)]
    pieces += [{"refusal": piece} for piece in cut(refusal, draw)]
    for index, one in enumerate(calls):
        function = one["function"]
        assert isinstance(function, dict)
        first, *others = cut(function["arguments"], draw)
        pieces.append({"tool_calls": call(index=index, id=one["id"], name=function["name"])})
        pieces += [{"tool_calls": call(index=index, arguments=piece)} for piece in (first, *others)]
    usage = {"prompt_tokens": 9, "completion_tokens": 4}
    body = {
        "id": "chat-1",
        "model": "model-1",
        "choices": [{"index": 0, "message": message, "finish_reason": word}],
        "usage": usage,
    }
    chunks = [delta(**piece) for piece in pieces]
    return body, [*chunks, delta(word), {"id": "chat-1", "choices": [], "usage": usage}]


@given(split=splits(), encoded=st.booleans())
def test_any_way_to_split_gives_the_same_canisters(
    split: tuple[Chunk, list[Chunk]], encoded: bool
) -> None:
    """A stream equals the complete response, however its text and arguments are split."""
    body, chunks = split
    given_chunks = [msgspec.json.encode(chunk) for chunk in chunks] if encoded else chunks

    streamed, whole = read_stream(given_chunks), read_whole(body)

    assert outline(streamed.produce_canisters()) == outline(whole.produce_canisters())
    assert streamed.origin == whole.origin


def test_reasoning_text_and_calls_keep_this_order() -> None:
    """Reasoning comes before the text, in either of its fields."""
    first = read_whole(
        {
            "choices": [
                {
                    "message": {"content": "Yes.", "reasoning": "Hm.", "tool_calls": None},
                    "finish_reason": "stop",
                }
            ]
        }
    )
    second = read_stream([delta(reasoning_content="Hm."), delta("stop", content="Yes.")])

    for result, field in ((first, "reasoning"), (second, "reasoning_content")):
        (canister,) = result.produce_canisters()
        reasoning, text = canister.content
        assert isinstance(reasoning, ReasoningContent)
        assert reasoning.text == "Hm."
        assert reasoning.native is not None
        assert json.loads(reasoning.native.data) == {"fields": [field]}
        assert text == TextualContent("Yes.")


@pytest.mark.parametrize(
    "pieces",
    [
        [call(index=0, id="x", name="f"), call(index=0, arguments="{"), call(arguments="}")],
        [call(id="x", name="f", arguments="{"), call(id="x", arguments="}")],
        [call(index=0, name="f", arguments="{"), call(index=0, id="x", arguments="}")],
        [call(id="x", name="f", arguments="{"), call(arguments="}")],
    ],
    ids=["index", "id", "late id", "order"],
)
def test_pieces_of_an_invocation_are_joined(pieces: list[list[Chunk]]) -> None:
    """By id, then by index, then by order, whichever of them a vendor omits."""
    result = read_stream([*(delta(tool_calls=piece) for piece in pieces), delta("tool_calls")])

    assert outline(result.produce_canisters()) == [("invocation", "x", "f", "{}")]


def test_two_invocations_with_one_index_stay_separate() -> None:
    """Some vendors give all calls the index 0; the ids distinguish them, even interleaved."""
    result = read_stream(
        [
            delta(tool_calls=call(index=0, id="x", name="f", arguments="1")),
            delta(tool_calls=call(index=0, id="y", name="g", arguments="2")),
            delta(tool_calls=call(index=0, id="x", arguments="3")),
            delta("stop"),
        ]
    )

    assert outline(result.produce_canisters()) == [
        ("invocation", "x", "f", "13"),
        ("invocation", "y", "g", "2"),
    ]
    assert result.origin.stop_reason is StopReason.INVOCATION


def test_a_missing_invocation_id_is_generated_and_reported() -> None:
    """The id is the same each time, and a loss reports it."""
    result = read_stream([delta("stop", tool_calls=call(name="f", arguments={"a": 1}))])

    assert outline(result.produce_canisters()) == [("invocation", "call-chat-1-0", "f", '{"a":1}')]
    assert {str(loss.kind) for loss in result.losses} == {"synthesized", "coerced"}


def test_parts_of_a_list_become_contents() -> None:
    """Some vendors send a list: thinking, text, and native blocks, which are kept."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    block = {"type": "reference", "reference_ids": [1]}
    result = read_stream(
        [delta(content=[thinking]), delta(content=[block]), delta("stop", content="So.")]
    )

    (canister,) = result.produce_canisters()
    reasoning, native, text = canister.content
    assert isinstance(reasoning, ReasoningContent)
    assert reasoning.text == "Hm."
    assert isinstance(native, NativeContent)
    assert json.loads(native.native.data) == block
    assert text == TextualContent("So.")


def test_reasoning_details_are_joined_and_kept() -> None:
    """The details that must be returned unchanged are joined from their pieces, including the
    signature.
    """
    detail = {"type": "reasoning.text", "index": 0}
    result = read_stream(
        [
            delta(reasoning="Hm", reasoning_details=[{**detail, "text": "Hm"}]),
            delta(reasoning=".", reasoning_details=[{**detail, "text": "."}]),
            delta("stop", reasoning_details=[{**detail, "signature": "S"}]),
        ]
    )

    (canister,) = result.produce_canisters()
    (reasoning,) = canister.content
    assert isinstance(reasoning, ReasoningContent)
    assert (reasoning.text, reasoning.signature) == ("Hm.", "S")
    assert reasoning.native is not None
    assert json.loads(reasoning.native.data) == {"detail": detail, "fields": ["reasoning"]}


def test_sources_become_citations() -> None:
    """An annotation is a span of the text with its source."""
    source = {"url": "https://example.org", "title": "T", "start_index": 0, "end_index": 2}
    result = read_stream(
        [
            delta(content="So."),
            delta("stop", annotations=[{"type": "url_citation", "url_citation": source}]),
        ]
    )

    (canister,) = result.produce_canisters()
    (text,) = canister.content
    assert isinstance(text, TextualContent)
    (citation,) = text.citations
    assert (citation.start, citation.end, citation.url) == (0, 2, "https://example.org")


def test_usage_is_split_into_buckets_that_do_not_overlap() -> None:
    """Cached input and reasoning are parts of the totals; what exceeds its total is beside it."""
    details = {
        "prompt_tokens": 10,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 4},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    strange = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9}}

    usage = read_stream([delta("stop", content="x"), {"choices": [], "usage": details}]).usage
    odd = read_stream([delta("stop", content="x"), {"choices": [], "usage": strange}]).usage

    assert usage is not None
    assert (usage.input_tokens, usage.cache_read_tokens) == (6, 4)
    assert (usage.output_tokens, usage.reasoning_tokens) == (2, 5)
    assert odd is not None
    assert (odd.input_tokens, odd.cache_read_tokens) == (3, 9)


def test_a_refusal_has_its_own_stop_reason() -> None:
    """The vendor has the same reason for refusals and answers."""
    result = read_stream([delta("stop", refusal="No.")])

    assert outline(result.produce_canisters()) == [("assistant", (RefusalContent("No."),))]
    assert result.origin.stop_reason is StopReason.REFUSED
    assert result.origin.native_stop_reason == "stop"


def test_fields_without_a_common_name_are_kept() -> None:
    """Choices and log probabilities are kept with the response, unknown fields with the turn."""
    chunk = delta(content="x", telepathy="yes")
    chunk["choices"][0]["logprobs"] = {"content": [{"token": "x"}]}
    chunk["choices"].append({"index": 1, "delta": {"content": "z"}})

    result = read_stream([chunk, chunk, delta("stop")])

    (canister,) = result.produce_canisters()
    assert canister.content == (TextualContent("xx"),)
    assert canister.native is not None
    assert json.loads(canister.native.data) == {"telepathy": "yesyes"}
    assert result.native is not None
    assert json.loads(result.native.data)["choices"] == [
        {"logprobs": {"content": [{"token": "x"}, {"token": "x"}]}},
        {"index": 1, "message": {"content": "zz"}},
    ]
    assert result.losses == []


def test_a_truncated_stream_is_an_error() -> None:
    """It must not be taken for a complete answer."""
    with pytest.raises(StreamTruncatedError):
        read_stream([delta(content="Once upon")])


def test_an_error_in_a_stream_is_an_error_of_the_vendor() -> None:
    """It is classified by its fields, whatever the status of the stream."""
    with pytest.raises(ProviderError) as caught:
        read_stream([delta(content="x"), {"error": {"message": "Slow down", "code": 429}}])
    with pytest.raises(ContextOverflowError):
        read_stream([{"error": {"message": "too long", "code": "context_length_exceeded"}}])

    assert caught.value.fault is ProviderFault.RATE_LIMITED
    assert caught.value.is_retryable


@given(st.one_of(st.binary(max_size=20), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["choices", "delta", "content", "tool_calls", "error",
                                       "usage", "index", "id", "function"]), inner, max_size=3),
)))  # fmt: skip
def test_invalid_chunks_raise_only_our_errors(chunk: Any) -> None:
    """No other exception is raised, whatever a vendor sends."""
    decoder = Decoder(provider="vendor")
    try:
        decoder.decode(chunk)
        decoder.finish()
    except ConverseError:
        pass
