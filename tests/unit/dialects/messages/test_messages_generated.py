"""Everything in the SDK's types round-trips: requests, answers, and streamed answers."""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types.beta import BetaMessage
from anthropic.types.beta.message_create_params import MessageCreateParamsNonStreaming
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from support.vendors.messages_exchanges import (
    CONTROLS,
    assemble,
    read_stream,
    read_whole,
    write_whole,
)
from support.vendors.sdk_generation import (
    DATA,
    FEW,
    NAMES,
    OBJECTS,
    add_unknown_fields,
    generate,
    split_randomly,
)
from vibe_llms.dialects.messages import Quirks, nativize_request, normalize_request
from vibe_llms.models.integrators import ModelsIntegrator

mean = functools.partial(distil, "messages")

URLS = NAMES.map("https://{}.example".format)
SIGNATURES = DATA.filter(bool)
SCHEMAS = st.just({"type": "object", "properties": {"a": {"type": "string"}}})
MODELS = ("claude-sonnet-5-5", "claude-3-haiku-20240307", "model")
MODEL_BLOCKS = {"tool_use", "thinking", "redacted_thinking"}
USER_BLOCKS = {"image", "document"}
REQUESTS = generate(
    MessageCreateParamsNonStreaming,
    {
        "MessageCreateParamsNonStreaming.model": st.sampled_from(MODELS),
        "budget_tokens": st.integers(1024, 9999),
        "data": DATA,
        "input_schema": SCHEMAS,
        "max_tokens": st.integers(1, 9999),
        "name": NAMES,
        "schema": SCHEMAS,
        "signature": SIGNATURES,
        "url": URLS,
    },
)
ANSWERS = generate(
    BetaMessage,
    {"BetaFallbackInfo.model": st.just("model"), "BetaMessage.model": st.just("model"),
     "data": DATA, "input": OBJECTS, "name": NAMES, "signature": SIGNATURES, "url": URLS},
)  # fmt: skip


def settle(request: dict[str, Any]) -> dict[str, Any]:
    """Make a valid history of one that only has the right types."""
    numbers, owed, messages = itertools.count(), list[str](), list[dict[str, Any]]()
    for message in request["messages"]:
        content = message.get("content") or []
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        refused = USER_BLOCKS if message["role"] == "assistant" else MODEL_BLOCKS
        blocks = [each for each in content if each["type"] not in refused | {"tool_result"}]
        existing_results = [each for each in content if each["type"] == "tool_result"]
        results: list[dict[str, Any]] = [
            {
                "type": "tool_result",
                **(existing_results[place] if place < len(existing_results) else {}),
                "tool_use_id": each,
            }
            for place, each in enumerate(owed)
        ]
        owed = []
        if message["role"] == "user":
            blocks = [*results, *blocks]
        elif results:
            messages.append({"role": "user", "content": results})
        for block in blocks:
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{next(numbers)}"
                owed.append(block["id"])
        if blocks:
            messages.append({**message, "content": blocks})
    if owed:
        results = [{"type": "tool_result", "tool_use_id": identity} for identity in owed]
        messages.append({"role": "user", "content": results})
    settled = {**request, "messages": messages or [{"role": "user", "content": "?"}]}
    thinking = settled.get("thinking") or {}
    if thinking.get("type") in ("enabled", "adaptive"):
        for name in ("temperature", "top_k", "top_p"):  # the model chooses its words by itself
            settled.pop(name, None)
        if "budget_tokens" in thinking:  # of which the answer needs more
            settled["max_tokens"] += thinking["budget_tokens"]
        if (settled.get("tool_choice") or {}).get("type") in ("any", "tool"):
            del settled["tool_choice"]  # as the vendor refuses both
    return settled


@pytest.mark.slow
@pytest.mark.parametrize("facts", [{}, {"controls": CONTROLS}], ids=["unknown", "known"])
@FEW
@given(request=REQUESTS.map(settle), seed=st.integers(0, 99))
def test_any_request_round_trips(request: dict[str, Any], seed: int, facts: Any) -> None:
    """With unknown fields at any place, for models with all controls and with none."""
    native = add_unknown_fields(request, random.Random(seed))
    before = json.dumps(native)
    attributes = ModelsIntegrator(provider="anthropic").integrate(native["model"], facts=facts)
    read = normalize_request(native, attributes)
    written = nativize_request(read.value, attributes, Quirks(), provider="anthropic")
    assert json.dumps(native) == before
    assert read.losses == written.losses == ()
    assert mean(written.value) == mean(native)


@pytest.mark.slow
@FEW
@given(ANSWERS, st.integers(0, 99))
def test_any_answer_round_trips(answer: dict[str, Any], seed: int) -> None:
    """Complete and streamed, split anywhere, with unknown fields at any place."""
    chance = random.Random(seed)
    native = add_unknown_fields(answer, chance)
    written, losses = write_whole(assemble(read_whole(native)))
    assert losses == ()
    assert mean(written) == mean(native)
    data = "".join(stream(native, chance)).encode()
    streamed, losses = write_whole(assemble(read_stream(split_randomly(data, chance))))
    assert losses == ()
    assert mean(streamed) == mean(native)


def stream(answer: dict[str, Any], chance: random.Random) -> Iterator[str]:
    """Yield the frames in which the vendor would send an answer."""
    late = ("stop_details", "container", "context_management")
    begun = {k: v for k, v in answer.items() if k not in late}
    yield frame("message_start", message={**begun, "content": [], "stop_reason": None})
    for index, whole in enumerate(answer["content"]):
        block, deltas = split(whole, chance)
        yield frame("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield frame("content_block_delta", index=index, delta=delta)
            yield chance.choice(["", ": a comment\n\n", frame("ping")])
        yield frame("content_block_stop", index=index)
    ending = {name: answer.get(name) for name in ("stop_reason", "stop_sequence", *late[:2])}
    managed = {name: answer[name] for name in late[2:] if name in answer}
    yield frame("message_delta", delta=ending, usage=answer["usage"], **managed)
    yield frame("message_stop")


def split(block: dict[str, Any], chance: random.Random) -> tuple[dict[str, Any], list[Any]]:
    """Return the beginning of a block, and the deltas that complete it."""
    match block["type"]:
        case "text":
            cited = block.get("citations") or []
            deltas = [
                {"type": "text_delta", "text": text}
                for text in split_randomly(block["text"], chance)
            ]
            deltas += [{"type": "citations_delta", "citation": each} for each in cited]
            return {**block, "text": "", **({"citations": []} if cited else {})}, deltas
        case "thinking":
            texts = split_randomly(block["thinking"], chance)
            deltas = [{"type": "thinking_delta", "thinking": text} for text in texts]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
            return {**block, "thinking": "", "signature": ""}, deltas
        case "tool_use" | "server_tool_use" | "mcp_tool_use":
            texts = split_randomly(json.dumps(block["input"], ensure_ascii=False), chance)
            deltas = [{"type": "input_json_delta", "partial_json": text} for text in texts]
            return {**block, "input": {}}, deltas
    return block, []


def frame(kind: str, **fields: Any) -> str:
    """Write an event of a stream."""
    data = json.dumps({"type": kind, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n"


def test_tools_that_a_client_named_the_same_stay() -> None:
    """The vendor refuses them; a server tool with the name of another is not left out silently."""
    kinds = ("bash_20241022", "bash_20241022", "code_execution_20250522")
    native = {
        "model": "claude-sonnet-5-5",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [{"type": kind, "name": "run"} for kind in kinds],
    }
    attributes = ModelsIntegrator(provider="anthropic").integrate("claude-sonnet-5-5", facts={})
    read = normalize_request(native, attributes)

    written = nativize_request(read.value, attributes, Quirks(), provider="anthropic")

    assert written.value["tools"] == native["tools"]
    assert written.losses == ()
