"""Strategies for requests and responses in the words of Ollama's chat, and models to ask."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from strategies.messages import json_objects, texts, words
from vibe_llms.dialects.ollama_chat import Decoder
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.requests import CHOICES, Request, Response, ResponseMetadata
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.keys import KEYS_BY_NAME
from vibe_llms.providers.assembly import Assembler

CONTROLS = (
    "frequency_penalty",
    "max_tokens",
    "min_p",
    "presence_penalty",
    "reasoning_effort",
    "repeat_penalty",
    "seed",
    "stop",
    "temperature",
    "top_k",
    "top_p",
)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def describe_model(name: str = "llama3", **facts: Any) -> ModelAttributes:
    """Returns a model with the common controls, and whatever else is said of it."""
    definitions = {control: KEYS_BY_NAME[control].definition for control in CONTROLS}
    integrator = ModelsIntegrator(provider="ollama")
    return integrator.integrate(name, facts={"controls": definitions, **facts})


def assemble(events: list[StreamEvent], request: Request) -> Response:
    """Returns the response that events amount to."""
    assembler = Assembler(provider="ollama", model="llama3", protocol="ollama_chat")
    for event in events:
        assembler.feed(event)
    return Response(
        request=request,
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


def read_whole(body: Mapping[str, Any] | bytes, request: Request) -> Response:
    """Returns the response that a body says."""
    return assemble(Decoder(provider="ollama").decode_response(body), request)


def strip(value: Any) -> Any:
    """Takes out of an object what says nothing: null, and what is empty."""
    if isinstance(value, Mapping):
        kept = {key: strip(inner) for key, inner in value.items()}
        return {key: inner for key, inner in kept.items() if inner not in (None, "", [], {})}
    return [strip(inner) for inner in value] if isinstance(value, list) else value


def _optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


images = st.lists(
    st.binary(max_size=6).map(lambda data: base64.b64encode(PNG + data).decode()),
    min_size=1,
    max_size=2,
)
unknown = _optional(x_hint=st.integers(1, 9), x_more=st.just({"deep": [1, 2.5]}))


@st.composite
def native_calls(draw: st.DrawFn) -> dict[str, Any]:
    function = {"name": draw(words), "arguments": draw(json_objects)}
    function |= draw(_optional(index=st.integers(0, 3)))
    return {"function": function, **draw(_optional(type=st.just("function")))}


@st.composite
def assistant_messages(draw: st.DrawFn, identities: Any = None) -> dict[str, Any]:
    """What an assistant says; with ids where ``identities`` is an iterator of such."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(texts)}
    message |= draw(_optional(thinking=words))
    calls = draw(st.lists(native_calls(), max_size=2))
    if identities is not None:
        calls = [{"id": next(identities), **call} for call in calls]
    if calls:
        message["tool_calls"] = calls
    return message | draw(unknown)


@st.composite
def native_turns(draw: st.DrawFn, number: int) -> list[dict[str, Any]]:
    """A turn of the user, one of the assistant, and the results that it asked for."""
    user = {"role": draw(st.sampled_from(["user", "system"])), "content": draw(texts)}
    if user["role"] == "user":
        user |= draw(_optional(images=images))
    named = draw(st.booleans())
    identities = (f"call_{number}_{count}" for count in range(9)) if named else None
    assistant = draw(assistant_messages(identities))
    results = []
    for call in assistant.get("tool_calls", ()):
        result = {"role": "tool", "content": draw(texts)}
        result |= {"tool_name": call["function"]["name"]} if draw(st.booleans()) else {}
        result |= {"tool_call_id": call["id"]} if named else {}
        results.append(result)
    return [user, assistant, *results]


@st.composite
def native_requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request such as clients send: everything that has a common word, and what has none."""
    count = draw(st.integers(0, 2))
    messages = [message for number in range(count) for message in draw(native_turns(number))]
    messages.append({"role": "user", "content": draw(words)})
    options = _optional(
        temperature=st.floats(0, 2),
        num_predict=st.integers(-2, 99),
        stop=st.lists(words, max_size=2),
        top_k=st.integers(0, 50),
        num_ctx=st.sampled_from([2048, 4096]),
        mirostat=st.integers(0, 2),
    )
    function = st.fixed_dictionaries(
        {"name": words.filter(lambda name: name not in CHOICES)},
        optional={"description": texts, "parameters": json_objects, "x_strict": st.booleans()},
    )
    tool = st.fixed_dictionaries({"type": st.just("function"), "function": function})
    top = _optional(
        format=st.sampled_from(["", "json", {"type": "object", "properties": {"a": {}}}]),
        options=options,
        keep_alive=st.sampled_from(["5m", 0, None]),
        think=st.sampled_from([True, False, "low", "medium", "high", "max"]),
        tools=st.lists(tool, max_size=2, unique_by=lambda tool: tool["function"]["name"]),
        logprobs=st.booleans(),
    )
    return {"model": "llama3", "messages": messages, "stream": draw(st.booleans()), **draw(top)}


@st.composite
def native_responses(draw: st.DrawFn) -> dict[str, Any]:
    """A whole response, as servers old and new write it."""
    optional = _optional(
        done_reason=st.sampled_from(["stop", "length", "load"]),
        total_duration=st.integers(0, 2**40),
        prompt_eval_count=st.integers(0, 999),
        eval_count=st.integers(0, 999),
        logprobs=st.just([{"token": "a", "logprob": -0.5}]),
        remote_model=words,
    )
    identities = (f"call_{count}" for count in range(9))
    return {
        "model": "llama3",
        "created_at": "2025-08-20T09:45:30.391699Z",
        "message": draw(assistant_messages(draw(st.sampled_from([None, identities])))),
        "done": True,
        **draw(optional),
    }
