"""Every item, part, annotation, tool and event of the installed SDK is mapped or passed through."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import pytest
from openai import BaseModel
from openai.types.responses import (
    ResponseInputItemParam,
    ResponseOutputItem,
    ResponseStreamEvent,
    ToolParam,
)
from openai.types.responses.response_create_params import ResponseCreateParamsBase, ToolChoice
from openai.types.responses.response_format_text_config_param import ResponseFormatTextConfigParam
from typing_extensions import is_typeddict

from fidelity.meanings import distil
from vibe_llms.dialects.responses import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    normalize_request,
)
from vibe_llms.events.stream import NativeEvent
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import NativeContent
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.definitions import produce_control
from vibe_llms.models.genera import Genus
from vibe_llms.models.keys import KEYS, KeyRole
from vibe_llms.providers.assembly import Assembler

mean = functools.partial(distil, "responses")

PICTURE = "data:image/png;base64,AAAA"
SOURCED = ("input_image", "input_file", "computer_screenshot")
TEXTS = {"image_url": PICTURE, "result": "AAAA", "file_data": "data:application/pdf;base64,AAAA"}
"""Texts that have a form of their own, by the names of their fields."""

NATIVE_ITEMS = {
    "additional_tools": "tools that appear in the middle; they are described as the vendor does",
    "compaction": "a signed digest of the turns before it, for this vendor alone",
    "compaction_trigger": "asks the vendor to compact",
    "configuration_update": "changes parameters in the middle of a conversation",
    "item_reference": "stands for an item that only the vendor holds",
    "mcp_list_tools": "what tools another server has: neither a call nor a result",
}
"""Items that may stay native, and why."""

NATIVE_EVENTS = {
    "response.code_interpreter_call.completed": "progress",
    "response.code_interpreter_call.in_progress": "progress",
    "response.code_interpreter_call.interpreting": "progress",
    "response.compaction.compacting": "progress",
    "response.file_search_call.completed": "progress",
    "response.file_search_call.in_progress": "progress",
    "response.file_search_call.searching": "progress",
    "response.image_generation_call.completed": "progress",
    "response.image_generation_call.generating": "progress",
    "response.image_generation_call.in_progress": "progress",
    "response.image_generation_call.partial_image": "a draft; the picture comes with its item",
    "response.mcp_call.completed": "progress",
    "response.mcp_call.failed": "progress",
    "response.mcp_call.in_progress": "progress",
    "response.mcp_list_tools.completed": "progress",
    "response.mcp_list_tools.failed": "progress",
    "response.mcp_list_tools.in_progress": "progress",
    "response.shell_call_command.added": "a call may hold several commands; the item has them all",
    "response.shell_call_command.delta": "a call may hold several commands; the item has them all",
    "response.shell_call_command.done": "a call may hold several commands; the item has them all",
    "response.shell_call_output_content.delta": "two streams in one; the item has them whole",
    "response.shell_call_output_content.done": "two streams in one; the item has them whole",
    "response.web_search_call.completed": "progress",
    "response.web_search_call.in_progress": "progress",
    "response.web_search_call.searching": "progress",
}
"""Events that pass through as they are, and why."""


def list_members(union: Any) -> list[Any]:
    """Return the members of a union, including those of nested unions."""
    if get_origin(union) in (Annotated, Required, NotRequired):
        return list_members(get_args(union)[0])
    if get_origin(union) in (Union, types.UnionType):
        return [member for each in get_args(union) for member in list_members(each)]
    return [union]


def produce_samples(kind: Any, name: str = "", depth: int = 0) -> list[Any]:
    """Return values of a type in which every member of every union occurs."""
    samples: list[Any] = []
    for member in list_members(kind):
        origin = get_origin(member)
        if member is type(None):
            continue
        if origin is Literal:
            samples += get_args(member)[: 1 if name != "type" else None]
        elif origin in (list, Iterable) or (origin is not None and issubclass(origin, Iterable)):
            if origin is dict:
                samples.append({"key": produce_samples(get_args(member)[1], "", depth)[0]})
                continue
            inner = produce_samples(get_args(member)[0], name, depth + 1)
            samples.append(inner[:6] if depth < 6 else [])
        elif is_typeddict(member) or (isinstance(member, type) and issubclass(member, BaseModel)):
            samples += produce_objects(member, depth)
        else:
            plain = {str: TEXTS.get(name, name or "text"), int: 3, float: 0.5, bool: True}
            samples.append(plain.get(member, {"a": 1}))
    return samples or [None]


def produce_objects(kind: Any, depth: int) -> list[dict[str, Any]]:
    """Return objects of a class: with all fields, with the required ones, and variants."""
    if depth > 8:
        return [{}]
    fields, needed = survey_fields(kind)
    choices = {name: produce_samples(each, name, depth + 1) for name, each in fields.items()}
    full = {name: values[0] for name, values in choices.items()}
    objects = [full, {name: full[name] for name in full if name in needed}]
    if full.get("type") in SOURCED:
        del objects[1]  # a medium without a source says nothing
    if depth < 3:
        for name, values in choices.items():
            objects += [{**full, name: value} for value in values[1:]]
    return objects


def survey_fields(kind: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the fields of a class by their names in JSON, and the required ones."""
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        needed = {name for name, hint in hints.items() if get_origin(hint) is Required}
        return {("async" if n == "async_" else n): h for n, h in hints.items()}, needed
    fields = {each.alias or name: each.annotation for name, each in kind.model_fields.items()}
    needed = {each.alias or name for name, each in kind.model_fields.items() if each.is_required()}
    return fields, needed


def produce_attributes() -> ModelAttributes:
    """Return the attributes of a model with any control."""
    controls = tuple(
        produce_control(key.name, key.definition) for key in KEYS if key.role is KeyRole.CONTROL
    )
    address = ModelAddress("openai_responses", "model")
    return ModelAttributes(
        address=address, genus=Genus.CONVERSER, controls=controls, traced_values=()
    )


def name_sample(sample: Any) -> str:
    """Name a sample in the report."""
    return str(sample.get("type")) if isinstance(sample, Mapping) else str(sample)


def round_trip(native: dict[str, Any]) -> tuple[Request, dict[str, Any], tuple[Loss, ...]]:
    """Return a request as ours, and in the vendor's format again."""
    read = normalize_request(native)
    written = nativize_request(
        read.value, produce_attributes(), Quirks(), provider="openai_responses"
    )
    return read.value, dict(written.value), written.losses


def surround(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return an item with the items that must be before and after it.

    Nothing for a result without a call, which cannot be in a conversation.
    """
    kind, call = item.get("type"), item.get("call_id")
    if kind == "function_call":
        return [item, {"type": "function_call_output", "call_id": call, "output": "1"}]
    if kind == "custom_tool_call":
        return [item, {"type": "custom_tool_call_output", "call_id": call, "output": "1"}]
    if kind in ("function_call_output", "custom_tool_call_output"):
        call_before = {"type": "function_call", "call_id": call, "name": "f", "arguments": "{}"}
        if kind == "custom_tool_call_output":
            call_before = {"type": "custom_tool_call", "call_id": call, "name": "f", "input": ""}
        return [call_before, item] if call else []
    if kind in ANSWERS:
        return [item, ANSWERS[kind](item)] if is_ours(item) else [item]
    for call_type, answer in ANSWERS.items():
        sample = answer({"call_id": call, "id": item.get("approval_request_id")})
        if sample["type"] == kind and kind != "tool_search_output":
            return [CALLS[call_type](item), item]
    if kind == "tool_search_output" and item.get("execution") == "client":
        call_item = {"type": "tool_search_call", "call_id": call, "execution": "client"}
        return [{**call_item, "arguments": {}}, item]
    if kind == "reasoning":
        return [item, {"role": "assistant", "content": "So."}]
    return [item]


def is_ours(item: dict[str, Any]) -> bool:
    """Return whether we execute a call."""
    return bool(item.get("execution", "client") == "client")


ANSWERS: dict[str, Any] = {
    "apply_patch_call": lambda item: {
        "type": "apply_patch_call_output", "call_id": item.get("call_id"), "status": "completed",
        "output": "done",
    },
    "computer_call": lambda item: {
        "type": "computer_call_output", "call_id": item.get("call_id"),
        "output": {"type": "computer_screenshot", "image_url": PICTURE},
    },
    "local_shell_call": lambda item: {
        "type": "local_shell_call_output", "id": item.get("call_id"), "output": "done",
    },
    "mcp_approval_request": lambda item: {
        "type": "mcp_approval_response", "approval_request_id": item.get("id"), "approve": True,
    },
    "shell_call": lambda item: {
        "type": "shell_call_output", "call_id": item.get("call_id"),
        "output": [
            {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
        ],
    },
    "tool_search_call": lambda item: {
        "type": "tool_search_output", "call_id": item.get("call_id"), "execution": "client",
        "tools": [],
    },
}  # fmt: skip
CALLS: dict[str, Any] = {
    "apply_patch_call": lambda item: {
        "type": "apply_patch_call", "call_id": item.get("call_id"), "status": "completed",
        "operation": {"type": "delete_file", "path": "a"},
    },
    "computer_call": lambda item: {
        "type": "computer_call", "id": "cu", "call_id": item.get("call_id"),
        "pending_safety_checks": [], "status": "completed", "action": {"type": "screenshot"},
    },
    "local_shell_call": lambda item: {
        "type": "local_shell_call", "id": "ls", "call_id": item.get("id"), "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "mcp_approval_request": lambda item: {
        "type": "mcp_approval_request", "id": item.get("approval_request_id"), "name": "f",
        "arguments": "{}", "server_label": "s",
    },
    "shell_call": lambda item: {
        "type": "shell_call", "call_id": item.get("call_id"), "action": {"commands": ["ls"]},
    },
}  # fmt: skip

INPUT_SAMPLES = [
    sample for member in list_members(ResponseInputItemParam)
    for sample in produce_objects(member, 0)
]  # fmt: skip
OUTPUT_SAMPLES = [
    sample for member in list_members(ResponseOutputItem) for sample in produce_objects(member, 0)
]
EVENT_SAMPLES = [
    sample for member in list_members(ResponseStreamEvent)
    for sample in produce_objects(member, 2)[:2]
]  # fmt: skip


def test_the_samples_cover_the_unions() -> None:
    """The SDK has as many kinds as the protocol's description; this fails for a new one."""
    assert len({sample.get("type", "message") for sample in INPUT_SAMPLES}) == 31
    assert len(list_members(ResponseInputItemParam)) == 33
    assert len({sample["type"] for sample in OUTPUT_SAMPLES}) == 28
    assert len({sample["type"] for sample in EVENT_SAMPLES}) == 59


@pytest.mark.slow
@pytest.mark.parametrize("item", [*filter(surround, INPUT_SAMPLES)], ids=name_sample)
def test_every_input_item_round_trips(item: dict[str, Any]) -> None:
    """With any of its fields, and without a loss."""
    items = surround(item)
    if item.get("type") != "compaction_trigger":
        items = [*items, {"role": "user", "content": "Go on."}]
    request, written, losses = round_trip({"model": "model", "input": items})
    assert mean(written["input"]) == mean(items)
    assert not losses
    assert request.continuation is False


def produce_output_response(output: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a complete response with these items."""
    return {
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
        "model": "model", "output": output, "parallel_tool_calls": True, "error": None,
        "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
    }  # fmt: skip


def assemble(body: dict[str, Any]) -> Response:
    """Return the response in a body."""
    assembler = Assembler(provider="openai_responses", model="model", protocol=PROTOCOL)
    for event in Decoder(provider="openai_responses").decode_response(body):
        assembler.feed(event)
    return Response(
        request=Request(canisters=(UserCanister("?"),)),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


@pytest.mark.slow
@pytest.mark.parametrize("item", OUTPUT_SAMPLES, ids=name_sample)
def test_every_output_item_round_trips(item: dict[str, Any]) -> None:
    """A gateway passes on all of its fields."""
    body = produce_output_response([item])
    written = nativize_response(assemble(body))
    assert mean(written.value) == mean(body)
    assert not written.losses


@pytest.mark.slow
@pytest.mark.parametrize("item", OUTPUT_SAMPLES, ids=name_sample)
def test_only_listed_items_stay_native(item: dict[str, Any]) -> None:
    """Text, reasoning, calls and results are mapped; the table has the exceptions."""
    canisters = assemble(produce_output_response([item])).canisters
    stays = any(isinstance(c, NativeContent) for each in canisters for c in each.content)
    assert stays == (item["type"] in NATIVE_ITEMS)
    assert canisters
    for canister in canisters:
        if item["type"].endswith(("_call", "_request")) or item["type"] == "program":
            assert isinstance(canister, InvocationCanister | ResultCanister)


@pytest.mark.slow
@pytest.mark.parametrize("item", INPUT_SAMPLES, ids=name_sample)
def test_only_listed_input_items_stay_native(item: dict[str, Any]) -> None:
    """The same for items of a client."""
    request, _, _ = round_trip({"model": "model", "input": [item]})
    stays = any(
        isinstance(content, NativeContent)
        for each in request.canisters
        if isinstance(each, AssistantCanister | UserCanister | SupervisorCanister)
        for content in each.content
    )
    empty = item.get("type", "message") == "message" and not item.get("content")
    assert stays == (item.get("type") in NATIVE_ITEMS or empty)


def list_started(event: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events before an event in a stream."""
    yield {"type": "response.created", "response": {"id": "resp_1", "model": "model"}}
    kind = event["type"]
    place = {"output_index": event.get("output_index", 0)}
    item: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "content": []}
    if "function_call" in kind:
        item = {"type": "function_call", "id": "m", "call_id": "c", "name": "f", "arguments": ""}
    elif "custom_tool" in kind:
        item = {"type": "custom_tool_call", "id": "m", "call_id": "c", "name": "f", "input": ""}
    elif "reasoning" in kind:
        item = {"type": "reasoning", "id": "m", "summary": []}
    elif "mcp_call" in kind:
        item = {"type": "mcp_call", "id": "m", "name": "f", "server_label": "s", "arguments": ""}
    elif "code_interpreter" in kind:
        item = {"type": "code_interpreter_call", "id": "m", "code": None, "container_id": "c"}
    if not kind.startswith("response.output_item"):
        yield {"type": "response.output_item.added", "item": item, **place}


@pytest.mark.parametrize("event", EVENT_SAMPLES, ids=name_sample)
def test_every_event_is_mapped_or_passed_through(event: dict[str, Any]) -> None:
    """The table has those that are passed through; none raises an error."""
    decoder = Decoder(provider="openai_responses")
    kind = event["type"]
    for before in list_started(event):
        decoder.decode(before)
    if kind in ("response.failed", "error"):
        failing = {"response": {"error": {"code": "server_error", "message": "m"}}}
        with pytest.raises(Exception, match="m") as caught:
            decoder.decode({**event, **(failing if kind == "response.failed" else {})})
        assert type(caught.value).__name__ == "ProviderError"
        return
    if "response" in event:
        status = kind.rpartition(".")[2].replace("created", "in_progress")
        event = {**event, "response": {"id": "r", "status": status, "output": []}}
    passed = [e for e in decoder.decode(event) if isinstance(e, NativeEvent)]
    assert bool(passed) == (kind in NATIVE_EVENTS)
    for each in passed:
        assert each.kind == kind


TOOL_SAMPLES = [
    sample for member in list_members(ToolParam) for sample in produce_objects(member, 0)
]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOL_SAMPLES, ids=name_sample)
def test_every_tool_round_trips(tool: dict[str, Any]) -> None:
    """A function has a common description, a vendor's own tool stays native."""
    native = {"model": "model", "input": "Hello", "tools": [tool]}
    request, written, losses = round_trip(native)
    assert mean(written) == mean(native)
    assert not losses
    assert (request.invocables[0].schema is not None) == (tool["type"] == "function")


CHOICE_SAMPLES = [sample for member in list_members(ToolChoice)
                  for sample in produce_samples(member, "type")]  # fmt: skip


@pytest.mark.parametrize("choice", CHOICE_SAMPLES, ids=name_sample)
def test_every_choice_round_trips(choice: Any) -> None:
    """With or without a common counterpart."""
    tools = [
        {"type": "function", "name": "name", "description": "d", "parameters": {}, "strict": True},
        {"type": "web_search_preview"},
        {"type": "mcp", "server_label": "server_label"},
        {"type": "shell"},
    ]
    native = {"model": "model", "input": "Hello", "tools": tools, "tool_choice": choice}
    _, written, losses = round_trip(native)
    assert mean(written) == mean(native)
    assert not losses


FORMAT_SAMPLES = [sample for member in list_members(ResponseFormatTextConfigParam)
                  for sample in produce_objects(member, 0)]  # fmt: skip


@pytest.mark.parametrize("text_format", FORMAT_SAMPLES, ids=name_sample)
def test_every_format_round_trips(text_format: dict[str, Any]) -> None:
    """The schema is common, the other fields are native."""
    native = {
        "model": "model",
        "input": "Hello",
        "text": {"format": text_format, "verbosity": "low"},
    }
    request, written, losses = round_trip(native)
    assert mean(written) == mean(native)
    assert not losses
    assert (request.schema is not None) == (text_format["type"] != "text")
    assert request.controls == {"verbosity": "low"}


PARAMETERS = get_type_hints(ResponseCreateParamsBase, include_extras=True)
MAPPED_PARAMETERS = {
    "max_output_tokens": "max_tokens",
    "parallel_tool_calls": "parallel_invocations",
    "service_tier": "service_tier",
    "temperature": "temperature",
    "top_p": "top_p",
}


@pytest.mark.parametrize("name", sorted(PARAMETERS.keys() - {"input", "model", "tools", "stream"}))
def test_every_parameter_round_trips(name: str) -> None:
    """As a control if there is one, or else as native data of the request."""
    for value in produce_samples(PARAMETERS[name], name)[:8]:
        native = {"model": "model", "input": "Hello", name: value}
        if name == "tool_choice":
            continue
        if name == "stream_options":
            native["stream"] = True
        read = normalize_request(native).value
        written = nativize_request(
            read, produce_attributes(), Quirks(), streaming=bool(native.get("stream"))
        )
        assert mean(written.value) == mean(native)
        assert not written.losses
        if name in MAPPED_PARAMETERS:
            assert read.controls == {MAPPED_PARAMETERS[name]: value}


def test_all_parameters_are_known() -> None:
    """A new parameter makes this fail: is there a common field for it?"""
    assert len(PARAMETERS) == 33


def test_calls_of_the_vendor_are_its_own() -> None:
    """Its generated images are read once, and not duplicated."""
    item = {"type": "image_generation_call", "id": "ig", "status": "completed", "result": "AAAA"}
    invocation, result = assemble(produce_output_response([item])).canisters
    assert isinstance(invocation, InvocationCanister)
    assert isinstance(result, ResultCanister)
    assert invocation.owner is result.owner is Owner.VENDOR
    assert invocation.native is not None
    assert "AAAA" not in invocation.native.data
    assert result.content[0].type == "image"
