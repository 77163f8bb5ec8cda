"""Every type of the installed official SDK is supported; a new release shows what is missing."""

from __future__ import annotations

import functools
import inspect
import json
import typing
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import attrs
import pytest
import typing_extensions
from openai import BaseModel
from openai.types import chat
from openai.types.chat import completion_create_params
from openai.types.chat.chat_completion_assistant_message_param import ContentArrayOfContentPart
from openai.types.chat.chat_completion_content_part_param import ChatCompletionContentPartParam
from openai.types.chat.chat_completion_message_param import ChatCompletionMessageParam
from openai.types.chat.chat_completion_tool_choice_option_param import (
    ChatCompletionToolChoiceOptionParam,
)
from openai.types.chat.chat_completion_tool_union_param import ChatCompletionToolUnionParam
from openai.types.completion_usage import CompletionUsage

from fidelity.meanings import distil
from vibe_llms.dialects.chat_completions import (
    Decoder,
    Quirks,
    nativize_request,
    normalize_request,
)
from vibe_llms.events.stream import StreamEvent
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import NativeContent
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.providers.assembly import Assembler

mean = functools.partial(distil, "chat_completions")

MODEL = ModelsIntegrator(provider="vendor").integrate("m")

MAY_STAY_NATIVE = {
    # Parameters without a common word: each is of this vendor's service, not of a conversation.
    "audio": "voice and format of the answer",
    "function_call": "older form of tool_choice; only beside functions",
    "logit_bias": "token ids of one vendor's encoding",
    "logprobs": "asks for what only ResponseMetadata.native holds",
    "metadata": "the vendor's own bookkeeping",
    "modalities": "which forms the answer has",
    "moderation": "the vendor's own check",
    "n": "we take one answer; the others are kept whole",
    "prediction": "a hint for speed",
    "prompt_cache_key": "the vendor's cache",
    "prompt_cache_options": "the vendor's cache",
    "prompt_cache_retention": "the vendor's cache",
    "safety_identifier": "the vendor's own check",
    "store": "the vendor's own bookkeeping",
    "stream": "belongs to the call, not to the conversation",
    "stream_options": "belongs to the call, not to the conversation",
    "top_logprobs": "asks for what only ResponseMetadata.native holds",
    "user": "the vendor's own check",
    "web_search_options": "a tool of the vendor's",
}
"""Parameters that may be carried as native, and why."""

MAPPED = {
    "frequency_penalty": "controls",
    "functions": "invocables",
    "max_completion_tokens": "controls",
    "max_tokens": "controls",
    "messages": "canisters",
    "model": "model",
    "parallel_tool_calls": "controls",
    "presence_penalty": "controls",
    "reasoning_effort": "controls",
    "response_format": "schema",
    "seed": "controls",
    "service_tier": "controls",
    "stop": "controls",
    "temperature": "controls",
    "tool_choice": "invocation_choice",
    "tools": "invocables",
    "top_p": "controls",
    "verbosity": "controls",
}
"""Parameters with a common word, and the field of the request that holds it."""

WORDS: dict[str, Any] = {"arguments": '{"a":1}', "url": "https://example.org/a.png"}


def is_typed_dict(hint: Any) -> bool:
    """Return whether a hint is one of the SDK's dictionaries."""
    return typing_extensions.is_typeddict(hint) or typing.is_typeddict(hint)


def make(hint: Any, name: str = "", depth: int = 0) -> Any:
    """Make a value of a hint, with all of its fields."""
    origin, args = get_origin(hint), get_args(hint)
    if name == "data" and hint is str:
        return "AAAA"
    if origin is typing.Annotated or origin in (typing.Required, typing.NotRequired):
        return make(args[0], name, depth)
    if origin is Literal:
        return args[0]
    if inspect.isclass(hint) and issubclass(hint, BaseModel):
        fields = {key: field.annotation for key, field in hint.model_fields.items()}
        return {key: make(inner, key, depth + 1) for key, inner in fields.items()}
    if is_typed_dict(hint):
        hints = get_type_hints(hint)
        return {key: make(inner, key, depth + 1) for key, inner in hints.items()}
    if args and (origin is typing.Union or str(origin) == "<class 'types.UnionType'>"):
        known = [arg for arg in args if arg is not type(None)]
        return make(known[0], name, depth)
    if origin is not None and "dict" in str(origin).lower():
        return {"k": make(args[1], "v", depth + 1)} if depth < 12 else {}
    if origin is not None:
        return [make(args[0], name, depth + 1)] if args and depth < 12 else []
    if hint is object or hint is Any:
        return "any"
    return {str: WORDS.get(name, f"a {name}"), int: 7, float: 0.5, bool: True}.get(hint, "any")


def survey(union: Any) -> Iterator[Any]:
    """Yield the members of a union."""
    if get_origin(union) is typing.Annotated:
        union = get_args(union)[0]
    yield from (arg for arg in get_args(union) if arg is not type(None))


def name_hint(hint: Any) -> str:
    """Name a member in the report."""
    return str(getattr(hint, "__name__", hint))


def round_trip(native: dict[str, Any]) -> tuple[Any, JsonObject]:
    """Read a request and write it again, without any loss."""
    read = normalize_request(native)
    controls = dict.fromkeys(read.value.controls, 1)
    assert not controls, "the tests of controls are elsewhere"
    written = nativize_request(read.value, MODEL, Quirks())
    assert read.losses == written.losses == ()
    return read.value, json.loads(json.dumps(written.value))


@pytest.mark.parametrize("member", list(survey(ChatCompletionMessageParam)), ids=name_hint)
def test_every_kind_of_message_round_trips(member: Any) -> None:
    """With all of its fields."""
    message = make(member)
    native: dict[str, Any] = {"model": "m", "messages": [message]}
    if message["role"] == "assistant":
        message["tool_calls"] = [
            {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "y", "type": "custom", "custom": {"name": "g", "input": "words"}},
        ]
        del message["function_call"]
        native["messages"] += [
            {"role": "tool", "tool_call_id": name, "content": "done"} for name in "xy"
        ]
    if message["role"] == "tool":
        function = {"name": "f", "arguments": "{}"}
        call = {"id": message["tool_call_id"], "type": "function", "function": function}
        native["messages"].insert(0, {"role": "assistant", "content": None, "tool_calls": [call]})
    if message["role"] == "function":
        legacy = {"name": message["name"], "arguments": "{}"}
        native["messages"].insert(
            0, {"role": "assistant", "content": None, "function_call": legacy}
        )

    assert mean(round_trip(native)[1]) == mean(native)


@pytest.mark.parametrize(
    "member",
    [*survey(ChatCompletionContentPartParam), *survey(ContentArrayOfContentPart)],
    ids=name_hint,
)
def test_every_kind_of_part_is_mapped(member: Any) -> None:
    """None of them stays a native block, and all of its fields round-trip."""
    part = make(member)
    role = "assistant" if part["type"] == "refusal" else "user"
    native = {"model": "m", "messages": [{"role": role, "content": [part, part]}]}

    request, written = round_trip(native)

    assert not any(isinstance(c, NativeContent) for c in request.canisters[0].content)
    assert mean(written) == mean(native)


@pytest.mark.parametrize("member", list(survey(ChatCompletionToolUnionParam)), ids=name_hint)
def test_every_kind_of_tool_is_mapped(member: Any) -> None:
    """Functions and custom tools, with all of their fields."""
    tool = make(member)
    native = {"model": "m", "messages": [{"role": "user", "content": "?"}], "tools": [tool]}

    request, written = round_trip(native)

    assert request.invocables[0].name == "a name"
    assert mean(written) == mean(native)


@pytest.mark.parametrize("member", list(survey(ChatCompletionToolChoiceOptionParam)), ids=name_hint)
def test_every_kind_of_choice_round_trips(member: Any) -> None:
    """Names of choices, a named tool of both kinds, and a limit to some tools."""
    words = get_args(member) if get_origin(member) is Literal else [make(member)]
    for choice in words:
        function = {"type": "function", "function": {"name": "a name", "parameters": {}}}
        native = {
            "model": "m",
            "messages": [{"role": "user", "content": "?"}],
            "tools": [function],
            "tool_choice": choice,
        }
        assert mean(round_trip(native)[1]) == mean(native)


def survey_parameters() -> dict[str, Any]:
    """Return the parameters of a request by name, with their hints."""
    return get_type_hints(completion_create_params.CompletionCreateParamsStreaming)


def test_every_parameter_is_mapped_or_may_stay_native() -> None:
    """The tables have all of them, and no others."""
    assert survey_parameters().keys() == MAPPED.keys() | MAY_STAY_NATIVE.keys()
    assert not MAPPED.keys() & MAY_STAY_NATIVE.keys()


@pytest.mark.parametrize("name", sorted(MAPPED))
def test_a_mapped_parameter_has_a_field_of_the_request(name: str) -> None:
    """It is read into the common field that the table names, and not kept as native data."""
    function = {"name": "f", "description": "Does.", "parameters": {"type": "object"}}
    given: Any = {
        "functions": [function],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"a": 1}},
        },
        "stop": ["x"],
        "tool_choice": "none",
        "tools": [{"type": "function", "function": function}],
        "parallel_tool_calls": True,
        "seed": 1,
    }
    messages = [{"role": "user", "content": "?"}]
    default = {"model": "m", "messages": messages}
    value = default.get(name) or given.get(name) or make(survey_parameters()[name], name)
    request = normalize_request({**default, name: value}).value

    field = getattr(request, MAPPED[name])
    assert field not in (None, (), {}, "", "auto")


@pytest.mark.parametrize("name", sorted(MAY_STAY_NATIVE.keys() - {"stream", "stream_options"}))
def test_a_native_parameter_round_trips(name: str) -> None:
    """With any value."""
    value = make(survey_parameters()[name], name)
    native = {"model": "m", "messages": [{"role": "user", "content": "?"}], name: value}

    assert mean(round_trip(native)[1]) == mean(native)


def decode(events: list[StreamEvent]) -> Assembler:
    """Assemble a response from events."""
    assembler = Assembler(provider="vendor", model="m", protocol="chat_completions")
    for event in events:
        assembler.feed(event)
    return assembler


def find_texts(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each plain value within a value, with its path."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from find_texts(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for inner in value:
            yield from find_texts(inner, f"{path}[]")
    else:
        yield path, value


READ_OTHERWISE = {
    ".object": "says which protocol it is",
    ".choices[].index": "the first is the answer",
    ".choices[].delta.role": "an answer is the assistant's",
    ".choices[].message.role": "an answer is the assistant's",
    ".choices[].delta.tool_calls[].index": "tells the pieces apart",
    ".choices[].delta.tool_calls[].type": "the form of the invocation",
    ".choices[].message.tool_calls[].type": "the form of the invocation",
    ".obfuscation": "random padding",
    ".choices[].delta.audio.data": "bytes of the sound",
    ".choices[].message.audio.data": "bytes of the sound",
}
"""Values which are no text of a canister, its native or the origin, and why."""


@pytest.mark.parametrize("member", [chat.ChatCompletion, chat.ChatCompletionChunk])
def test_every_field_of_an_answer_is_found_again(member: type[BaseModel]) -> None:
    """In a canister, or in native data; complete and streamed."""
    answer = make(member)
    answer["choices"][0]["index"] = 0
    decoder = Decoder(provider="vendor")
    whole = member is chat.ChatCompletion
    body = json.dumps(answer).encode()
    events = decoder.decode_response(body) if whole else [*decoder.decode(body), *decoder.finish()]

    result = decode(events)

    canisters = [attrs.asdict(each) for each in result.produce_canisters()]
    natives = [each and attrs.asdict(each) for each in (result.native, result.usage)]
    kept = repr((canisters, natives))
    for path, value in find_texts(answer):
        if path not in READ_OTHERWISE:
            encoded = value if isinstance(value, str) else json.dumps(value)
            assert encoded in kept or json.dumps(encoded)[1:-1] in kept, path
    assert result.losses == []


def test_every_count_of_the_usage_is_kept() -> None:
    """The buckets have the known counts, and the native usage has all."""
    account = make(CompletionUsage) | {"completion_tokens": 21}  # of which the parts may be parts
    decoder = Decoder(provider="vendor")
    (event,) = decoder.decode({"choices": [], "usage": account})

    usage: Any = getattr(event, "usage", None)
    assert json.loads(usage.native) == account
    assert usage.reasoning_tokens == usage.output_audio_tokens == 7
