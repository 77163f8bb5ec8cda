"""Everything in the SDK's types round-trips: requests, answers, and streamed answers."""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response as SdkResponse
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming

from fidelity.meanings import distil
from support.vendors.sdk_generation import (
    DATA,
    FEW,
    NAMES,
    OBJECTS,
    add_unknown_fields,
    generate,
    split_randomly,
)
from vibe_llms.dialects.responses import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
)
from vibe_llms.events.stream import LossEvent, StreamEvent
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.definitions import produce_control
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import KEYS, KeyRole
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "responses")

URLS = NAMES.map("https://{}.example".format)
SCHEMAS = st.just({"type": "object", "properties": {"a": {"type": "string"}}})
COMMON = {
    "arguments": OBJECTS.map(json.dumps),
    "data": DATA,
    "encrypted_content": DATA.filter(bool),
    "file_data": DATA.map("data:application/pdf;base64,{}".format),
    "file_url": URLS,
    "image_url": DATA.map("data:image/png;base64,{}".format) | URLS,
    "name": NAMES,
    "result": DATA,
    "server_label": NAMES,
    "url": URLS,
}
REQUESTS = generate(
    ResponseCreateParamsNonStreaming,
    COMMON | {"max_output_tokens": st.integers(1, 99), "model": NAMES, "parameters": SCHEMAS,
              "schema": SCHEMAS, "stream_options": st.none()},
)  # fmt: skip
STATUSES = ("completed", "completed", "incomplete", "cancelled", "queued", "in_progress", "new")
ANSWERS = generate(
    SdkResponse,
    COMMON | {"Response.error": st.none(), "Response.status": st.sampled_from(STATUSES)},
)
ANSWERED_BY = {
    "apply_patch_call": ("apply_patch_call_output", "call_id"),
    "computer_call": ("computer_call_output", "call_id"),
    "custom_tool_call": ("custom_tool_call_output", "call_id"),
    "function_call": ("function_call_output", "call_id"),
    "mcp_approval_request": ("mcp_approval_response", "approval_request_id"),
    "shell_call": ("shell_call_output", "call_id"),
}
"""From a call that waits for us to the item that answers it, and how that refers to it."""
UNANSWERED = {"local_shell_call", "local_shell_call_output", "tool_search_call",
              "tool_search_output"}  # fmt: skip
ANSWER_ITEM = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed",
        "content": [{"type": "output_text", "text": "So.", "annotations": []}]}  # fmt: skip


def name_files(value: Any) -> Any:
    """Give files with data the names that the vendor requires."""
    if isinstance(value, list):
        return [name_files(each) for each in value]
    if not isinstance(value, dict):
        return value
    is_unnamed = value.get("type") == "input_file" and "file_data" in value
    named = {"filename": "a.pdf"} if is_unnamed else {}
    return {**named, **{name: name_files(each) for name, each in value.items()}}


def settle(request: dict[str, Any]) -> dict[str, Any]:
    """Make a valid history of one that only has the right types."""
    given, numbers, items = request.get("input", "?"), itertools.count(), list[Any]()
    if isinstance(given, str):
        return {**request, "input": given}
    answers = [each for each in given if str(each.get("type")) in dict(ANSWERED_BY.values())]
    for item in given:
        kind = str(item.get("type"))
        if item in answers or kind in UNANSWERED:
            continue
        if kind in ANSWERED_BY:
            answer_type, field = ANSWERED_BY[kind]
            own = "id" if kind == "mcp_approval_request" else "call_id"
            identity = f"call_{next(numbers)}"
            found = next((each for each in answers if each["type"] == answer_type), None)
            if found is not None:
                items += [{**item, own: identity}, {**found, field: identity}]
        elif kind == "reasoning":
            items += [{"encrypted_content": "QUJD", **item}, ANSWER_ITEM]
        elif item.get("role") != "assistant" or _is_model_content(item["content"]):
            items.append(item)
    return {**request, "input": items or "?"}


def _is_model_content(content: Any) -> bool:
    """Return whether the vendor accepts a content as the model's."""
    is_text = isinstance(content, str)
    return is_text or all(part["type"] in ("output_text", "refusal") for part in content)


def describe(role: KeyRole | None) -> ModelAttributes:
    """Return the attributes of a model with the controls of this role."""
    return ModelAttributes(
        address=ModelAddress("openai_responses", "model"),
        genus=Genus.CONVERSER,
        controls=tuple(produce_control(k.name, k.definition) for k in KEYS if k.role is role),
        traced_values=(),
    )


KNOWN = describe(KeyRole.CONTROL)


@pytest.mark.slow
@pytest.mark.parametrize("role", [None, KeyRole.CONTROL], ids=["unknown", "known"])
@FEW
@given(request=REQUESTS.map(settle).map(name_files), seed=st.integers(0, 99))
def test_any_request_round_trips(request: dict[str, Any], seed: int, role: KeyRole | None) -> None:
    """With unknown fields at any place, for models with all controls and with none."""
    native = add_unknown_fields({**request, "model": "model"}, random.Random(seed))
    before = json.dumps(native)
    attributes = describe(role)
    read = normalize_request(native, attributes)
    written = nativize_request(read.value, attributes, Quirks(), provider="openai_responses")
    assert json.dumps(native) == before
    assert not read.losses
    assert not written.losses
    if not native.get("stream"):
        native.pop("stream", None)  # silence means the same
    assert mean(written.value) == mean(native)


@pytest.mark.slow
@FEW
@given(ANSWERS.map(name_files), st.integers(0, 99))
def test_any_answer_round_trips(answer: dict[str, Any], seed: int) -> None:
    """Complete and streamed, split anywhere, with unknown fields at any place."""
    chance = random.Random(seed)
    native = add_unknown_fields(answer, chance)
    assert write(Decoder(provider="p").decode_response(native)) == mean(native)
    data = "".join(stream(native, chance)).encode()
    framer, decoder = SseFramer(Limits()), Decoder(provider="p")
    frames = [each for piece in split_randomly(data, chance) for each in framer.feed(piece)]
    events = [
        event
        for each in (*frames, *framer.finish())
        for event in decoder.decode(each.data, each.event)
    ]
    assert write([*events, *decoder.finish()]) == mean(native)


@pytest.mark.parametrize(
    "fields",
    [
        {"instructions": ""},
        {"seed": 1, "top_k": 5, "stop": ["a"]},
        {"text": {"format": {"type": "json_schema", "name": "a", "schema": {}}}},
        {"tools": [{"type": "mcp", "server_label": "a"}, {"type": "mcp", "server_label": "a"}]},
        {"tools": [{"name": "f", "input_schema": {}}]},
    ],
    ids=lambda fields: "-".join(fields),
)
def test_data_beyond_the_types_round_trip(fields: dict[str, Any]) -> None:
    """Parameters of other protocols, empty values, tools with equal names or without names."""
    native = {"model": "model", "input": "?", **fields}
    read = normalize_request(native, KNOWN)
    written = nativize_request(read.value, KNOWN, Quirks(), provider="openai_responses")
    assert read.losses == written.losses == ()
    assert mean(written.value) == mean(native)


@pytest.mark.parametrize("fields", [{"input": 5}, {"tools": "f"}, {"tools": [None]}])
def test_invalid_requests_raise_our_errors(fields: dict[str, Any]) -> None:
    """No other exception is raised, whatever a client sends."""
    with pytest.raises(RequestError, match="reference of"):
        normalize_request({"model": "model", "input": "?", **fields})


def write(events: Iterable[StreamEvent]) -> Any:
    """Return the body of the response for events; nothing may be lost."""
    assembler = Assembler(provider="p", model="asked", protocol=PROTOCOL)
    for event in events:
        assert not isinstance(event, LossEvent)
        assembler.feed(event)
    translation = nativize_response(
        Response(
            request=Request(canisters=(UserCanister("?"),)),
            canisters=assembler.produce_canisters(),
            metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
            losses=assembler.losses,
        )
    )
    assert not assembler.losses
    assert not translation.losses
    return mean(translation.value)


EMPTY: Mapping[str, Any] = {"arguments": "", "code": None, "content": [], "input": "",
                            "output": None, "outputs": None, "summary": []}  # fmt: skip
"""What the fields that come bit by bit hold at the beginning."""


def stream(answer: dict[str, Any], chance: random.Random) -> Iterator[str]:
    """Yield the frames in which the vendor would send an answer."""
    numbers = itertools.count()
    begun = {**answer, "output": [], "status": "in_progress", "usage": None}
    yield frame("response.created", next(numbers), response=begun)
    for place, item in enumerate(answer["output"]):
        started = {**item, **{name: EMPTY[name] for name in EMPTY if name in item}}
        if item["type"] not in STREAMED:
            started = item
        yield frame("response.output_item.added", next(numbers), output_index=place, item=started)
        where = {"output_index": place, "item_id": item.get("id")}
        for kind, fields in list_parts(item, chance):
            yield frame(kind, next(numbers), **where, **fields)
            yield chance.choice(["", ": a comment\n\n"])
        yield frame("response.output_item.done", next(numbers), output_index=place, item=item)
    yield frame("response.completed", next(numbers), response=answer)


STREAMED = {
    "code_interpreter_call": ("code", "code_interpreter_call_code"),
    "custom_tool_call": ("input", "custom_tool_call_input"),
    "function_call": ("arguments", "function_call_arguments"),
    "mcp_call": ("arguments", "mcp_call_arguments"),
    "message": ("", ""),
    "reasoning": ("", ""),
}
"""Items that come bit by bit: which field does, and the name of its events."""


def list_parts(item: dict[str, Any], chance: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the streamed parts of an item: the type of the event, and its fields."""
    field, name = STREAMED.get(item["type"], ("", ""))
    if field and isinstance(item.get(field), str):
        yield from list_pieces(name, field, item[field], {}, chance)
    for number, part in enumerate(item.get("summary") or () if "summary" in item else ()):
        where = {"summary_index": number}
        yield "response.reasoning_summary_part.added", {**where, "part": {**part, "text": ""}}
        yield from list_pieces("reasoning_summary_text", "text", part["text"], where, chance)
        yield "response.reasoning_summary_part.done", {**where, "part": part}
    contents = item.get("content") if item["type"] in ("message", "reasoning") else None
    for number, part in enumerate(contents or ()):
        kind, where = part["type"], {"content_index": number}
        field = "refusal" if kind == "refusal" else "text"
        yield "response.content_part.added", {**where, "part": {**part, field: ""}}
        yield from list_pieces(kind, field, part[field], where, chance)
        for annotation in part.get("annotations") or ():
            cited = {**where, "annotation": annotation}
            yield "response.output_text.annotation.added", cited
        yield "response.content_part.done", {**where, "part": part}


def list_pieces(
    name: str, field: str, text: str, where: dict[str, Any], chance: random.Random
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the deltas of a text, and the complete text."""
    for piece in split_randomly(text, chance):
        yield f"response.{name}.delta", {**where, "delta": piece}
    yield f"response.{name}.done", {**where, field: text}


def frame(kind: str, number: int, **fields: Any) -> str:
    """Write an event of a stream."""
    data = json.dumps({"type": kind, "sequence_number": number, **fields}, ensure_ascii=False)
    return f"event: {kind}\ndata: {data}\n\n"
