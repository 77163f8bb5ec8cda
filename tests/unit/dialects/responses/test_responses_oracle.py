"""The official SDK is the oracle for requests, for the result of a stream, and for errors."""

from __future__ import annotations

import functools
import json
import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import httpx2
import openai
import pytest
from openai.types.responses import Response as SdkResponse
from openai.types.responses import ResponseInputParam, ToolParam
from openai.types.responses.response_error import ResponseError
from openai.types.responses.response_format_text_config_param import ResponseFormatTextConfigParam
from pydantic import TypeAdapter

from fidelity.meanings import distil
from vibe_llms.dialects.openai_errors import FAULTS_BY_RESPONSE_CODE, FAULTS_BY_WORD
from vibe_llms.dialects.responses import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    nativize_response,
    produce_error,
)
from vibe_llms.dialects.signatures import is_wrapped
from vibe_llms.exceptions import ContextOverflowError, ProviderError, ProviderFault
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    Origin,
    ResultCanister,
    StopReason,
    SupervisorCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import (
    Citation,
    FileContent,
    ImageContent,
    Native,
    ReasoningContent,
    RefusalContent,
    TextualContent,
)
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.genera import Genus
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.sse import SseFramer

mean = functools.partial(distil, "responses")

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")
ATTRIBUTES = ModelAttributes(
    address=ModelAddress("openai_responses", "model"),
    genus=Genus.CONVERSER,
    controls=(),
    traced_values=(),
)
LOOK = InvocableDescription(
    name="look",
    description="Looks.",
    schema={"type": "object", "properties": {"at": {"type": "string"}}},
)
RUN = InvocableDescription(name="run", description="Runs a program.", schema=None)


def read_streams() -> list[dict[str, Any]]:
    """Return the recorded streams; none without a folder."""
    path = Path(RECORDINGS) / "openai_responses.jsonl"
    if not RECORDINGS or not path.exists():
        return []
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        row
        for row in rows
        if row["stream"] and row["status"] == 200 and counts_from_zero(row["body"])
    ]


def counts_from_zero(body: str) -> bool:
    """Return whether the SDK can read a stream: it fails if an item's first part is not 0."""
    first: dict[int, int] = {}
    for data in re.findall(r"^data: (.*response\.content_part\.added.*)$", body, re.MULTILINE):
        event = json.loads(data)
        first.setdefault(event["output_index"], event["content_index"])
    return not any(first.values())


async def accumulate(body: bytes) -> dict[str, Any]:
    """Return the response that the SDK makes of a stream."""

    def answer(_: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    async with openai.AsyncOpenAI(api_key="key", http_client=http) as client:
        response: Any = None
        async with client.responses.stream(model="model", input="Hello") as stream:
            async for event in stream:
                response = getattr(event, "response", response)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what other vendors add
        written: dict[str, Any] = response.to_dict()
    return written


def read(body: bytes) -> dict[str, Any]:
    """Return the response that we read from a stream, in the vendor's format."""
    decoder, framer = Decoder(provider="p"), SseFramer(Limits())
    assembler = Assembler(provider="p", model="model", protocol=PROTOCOL)
    for frame in (*framer.feed(body), *framer.finish()):
        for event in decoder.decode(frame.data, frame.event):
            assembler.feed(event)
    for event in decoder.finish():
        assembler.feed(event)
    response = Response(
        request=Request(canisters=(UserCanister("?"),)),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
    )
    return dict(nativize_response(response).value)


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS, reason="VIBE_LLMS_RECORDINGS names no folder of recordings")
@pytest.mark.parametrize("exchange", read_streams(), ids=lambda each: each["id"])
async def test_a_stream_is_read_as_the_sdk_reads_it(exchange: Mapping[str, Any]) -> None:
    """Our response equals that of its accumulator, for recorded streams."""
    body = exchange["body"].encode()
    ours = read(body)
    theirs = await accumulate(body)
    for response in (theirs, ours):
        for item in response["output"]:
            item.pop("parsed_arguments", None)
            for part in item.get("content") or ():
                part.pop("parsed", None)
            # Each copy of reasoning may be signed anew, and the two take different ones.
            item["encrypted_content"] = bool(item.get("encrypted_content"))
    assert mean(ours["output"]) == mean(theirs["output"])
    assert ours["usage"] == mean(theirs["usage"])
    assert (ours["id"], ours["model"]) == (theirs["id"], theirs["model"])


RICH: list[AnyCanister] = [
    SupervisorCanister("Be brief."),
    DocumentCanister("It rains.", title="Weather"),
    UserCanister(
        [
            "What is that?",
            ImageContent(mime_type="image/png", data=b"\x89PNG"),
            ImageContent(mime_type="image/*", url="https://example.org/a.png", detail="low"),
            FileContent(mime_type="application/pdf", data=b"%PDF", name="a.pdf"),
            FileContent(mime_type="application/pdf", url="https://example.org/a.pdf"),
        ]
    ),
    AssistantCanister(["A picture.", "Two of them."]),
    AssistantCanister([RefusalContent("I cannot say.")]),
    AssistantCanister(
        [
            TextualContent(
                "It rains.",
                citations=[Citation(start=0, end=2, url="https://example.org", title="Rain")],
            )
        ]
    ),
    InvocationCanister(invocation_id="call_1", name="look", arguments='{"at": "it"}'),
    InvocationCanister(invocation_id="call_2", name="run", arguments="ls", form="text"),
    ResultCanister(["Here:", ImageContent(mime_type="image/png", data=b"\x89PNG")],
                   invocation_id="call_1"),
    ResultCanister("a b c", invocation_id="call_2"),
    UserCanister("Go on."),
]  # fmt: skip


@pytest.mark.slow
def test_our_requests_have_the_types_of_the_sdk() -> None:
    """Items, tools and formats."""
    request = Request(
        canisters=RICH, invocables=[LOOK, RUN], schema={"type": "object", "properties": {}}
    )
    native = nativize_request(request, ATTRIBUTES, Quirks()).value
    TypeAdapter(ResponseInputParam).validate_python(native["input"])
    TypeAdapter(list[ToolParam]).validate_python(native["tools"])
    text_format = native["text"]["format"]  # type: ignore[call-overload,index]
    TypeAdapter(ResponseFormatTextConfigParam).validate_python(text_format)
    with pytest.raises(ValueError, match="call_id"):  # it can tell right from wrong
        TypeAdapter(ResponseInputParam).validate_python([{"type": "function_call"}])


def test_our_answers_have_the_types_of_the_sdk() -> None:
    """For a gateway's client, the response of another vendor is valid in this protocol."""
    origin = Origin(
        provider="other",
        model="model",
        protocol="messages",
        response_id="msg_1",
        stop_reason=StopReason.INVOCATION,
        native_stop_reason="tool_use",
        usage=Usage(input_tokens=3, cache_read_tokens=4, output_tokens=5, native="{}"),
    )
    signature = Native(protocol="messages", data="{}")
    canisters: list[AnyCanister] = [
        AssistantCanister(
            [ReasoningContent(text="Hm.", signature="signed", native=signature), "Let me look."],
            origin=origin,
        ),
        InvocationCanister(invocation_id="toolu_1", name="look", origin=origin),
    ]
    response = Response(
        request=Request(canisters=(UserCanister("?"),)),
        canisters=canisters,
        metadata=ResponseMetadata(origin=origin),
    )
    translated = nativize_response(response)
    required = {"created_at": 1, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    read = SdkResponse.model_validate({**translated.value, **required}, strict=False)
    assert [item.type for item in read.output] == ["reasoning", "message", "function_call"]
    assert read.usage is not None
    assert (read.usage.input_tokens, read.usage.input_tokens_details.cached_tokens) == (7, 4)
    assert is_wrapped(read.output[0].to_dict()["encrypted_content"])
    assert not any("signature" in loss.path for loss in translated.losses)


def test_every_code_of_a_failed_response_is_mapped() -> None:
    """The table has all codes of the SDK, so that this fails for a new one."""
    codes = set(get_args(ResponseError.model_fields["code"].annotation))
    assert set(FAULTS_BY_RESPONSE_CODE) == codes
    assert len(codes) == 21


@pytest.mark.parametrize("code", sorted(FAULTS_BY_RESPONSE_CODE))
def test_a_failed_response_has_the_fault_of_its_code(code: str) -> None:
    """The status is 200; the code decides, complete and streamed."""
    error = {"code": code, "message": "It failed."}
    failed = {"id": "r", "status": "failed", "error": error, "output": []}
    for feed in (
        lambda decoder: decoder.decode_response(failed),
        lambda decoder: decoder.decode({"type": "response.failed", "response": failed}),
        lambda decoder: decoder.decode({"type": "error", **error, "param": None}),
        lambda decoder: decoder.decode({"type": "error", "error": error}),
        lambda decoder: decoder.decode({"error": error}),
    ):
        with pytest.raises(ProviderError, match="It failed") as caught:
            feed(Decoder(provider="p"))
        assert caught.value.fault is FAULTS_BY_WORD[code]
        assert caught.value.vendor_code == code


def survey_statuses() -> set[int]:
    """Return the statuses for which the SDK has its own error class."""
    request = httpx2.Request("POST", "https://example.org")
    statuses = set()
    client = openai.OpenAI(api_key="key")
    for status in range(400, 500):
        response = httpx2.Response(status, request=request)
        if type(client._make_status_error("", body=None, response=response)) not in (
            openai.APIStatusError,
        ):
            statuses.add(status)
    client.close()
    return statuses


FAULTS = {
    400: ProviderFault.INVALID_REQUEST,
    401: ProviderFault.AUTHENTICATION,
    403: ProviderFault.PERMISSION,
    404: ProviderFault.NOT_FOUND,
    409: ProviderFault.SERVER,
    422: ProviderFault.INVALID_REQUEST,
    429: ProviderFault.RATE_LIMITED,
}


def test_every_error_class_of_the_sdk_has_a_fault() -> None:
    """Also the statuses that the SDK retries."""
    assert survey_statuses() == set(FAULTS)
    for status, fault in FAULTS.items():
        error = produce_error({"error": {"message": "m"}}, provider="p", status=status)
        assert isinstance(error, ProviderError)
        assert error.fault is fault
    for status in (408, 409, 429, 500, 502, 503, 504):
        assert produce_error("", provider="p", status=status).is_retryable


def test_an_overflow_is_recognized() -> None:
    """By a code, or by its message; if the message has sizes, they are read."""
    message = (
        "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens."
    )
    for error in (
        {"code": "context_length_exceeded", "message": "Too long"},
        {"type": "exceed_context_size_error", "n_prompt_tokens": 5000, "n_ctx": 4097},
        {"type": "BadRequestError", "code": 400, "message": message},
    ):
        overflow = produce_error({"error": error}, provider="p", status=400)
        assert isinstance(overflow, ContextOverflowError)
        assert overflow.limit in (4097, None)
        assert overflow.tokens in (5000, None)


def test_a_quota_is_not_a_rate_limit() -> None:
    """Both have the status 429, and only a rate limit is worth a retry."""
    body = {"error": {"code": "insufficient_quota", "type": "insufficient_quota"}}
    error = produce_error(body, provider="p", status=429)
    assert isinstance(error, ProviderError)
    assert error.fault is ProviderFault.QUOTA
    assert not error.is_retryable
