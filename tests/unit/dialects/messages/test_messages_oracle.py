"""The official SDK is the oracle for valid requests, and for the result of a stream."""

from __future__ import annotations

import functools
from typing import Any

import anthropic
import attrs
import httpx2
import pytest
from anthropic.types.beta import message_create_params
from hypothesis import given
from hypothesis import strategies as st

from fidelity.meanings import distil
from strategies.messages import canisters as any_canisters
from support.vendors.anthropic_types import find_misfit
from support.vendors.messages_exchanges import (
    KNOWN,
    NO_RECORDINGS,
    RECORDINGS,
    assemble,
    read_stream,
    survey_exchanges,
    write_whole,
)
from vibe_llms.dialects.messages import Quirks, nativize_request, normalize_request
from vibe_llms.dialects.messages.calling.messages import nativize_canisters
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import MEDIA_CLASSES, CacheHint, Native, TextualContent

mean = functools.partial(distil, "messages")

PARAMS = message_create_params.MessageCreateParamsNonStreaming


def forget(canister: AnyCanister) -> AnyCanister:
    """Return a canister without native data, with media of types that the vendor accepts."""
    contents = []
    for content in canister.content:
        if isinstance(content, CacheHint):
            contents.append(content)
            continue
        if isinstance(content, MEDIA_CLASSES):
            kind = "image/png" if content.type == "image" else "application/pdf"
            content = attrs.evolve(content, mime_type=kind, data=b"data", content_id=None)
        elif isinstance(content, TextualContent):
            citations = [attrs.evolve(citation, native=None) for citation in content.citations]
            content = attrs.evolve(content, citations=citations)
        native = Native(protocol="other", data="{}") if content.type == "native" else None
        contents.append(attrs.evolve(content, native=native))
    return attrs.evolve(canister, content=contents, native=None)


@pytest.mark.slow
@given(st.lists(any_canisters.map(forget), max_size=6))
def test_any_conversation_has_the_types_of_the_sdk(conversation: list[AnyCanister]) -> None:
    """Whatever the canisters contain."""
    translation = nativize_canisters(conversation, KNOWN, Quirks(), provider="ours")
    body = {"model": "model", "max_tokens": 9, **translation.value}
    assert find_misfit(body, PARAMS) is None


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS, reason=NO_RECORDINGS)
def test_a_recorded_request_keeps_the_types_of_the_sdk() -> None:
    """If the original request has them."""
    count = 0
    for exchange in survey_exchanges():
        request = {k: v for k, v in exchange["request"].items() if k != "stream"}
        if find_misfit(request, PARAMS) is None:
            translation = nativize_request(normalize_request(request).value, KNOWN, Quirks())
            assert find_misfit(translation.value, PARAMS) is None, exchange["id"]
            count += 1
    assert count


def read_by_sdk(body: str) -> dict[str, Any]:
    """Return the message that the SDK's own accumulator makes of a stream."""
    transport = httpx2.MockTransport(
        lambda request: httpx2.Response(
            200, headers={"content-type": "text/event-stream"}, content=body.encode("utf-8")
        )
    )
    with httpx2.Client(transport=transport) as http_client:
        client = anthropic.Anthropic(api_key="none", http_client=http_client, max_retries=0)
        with client.messages.stream(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "?"}]
        ) as stream:
            message = stream.get_final_message()
    fields: dict[str, Any] = message.to_dict(mode="json")
    return fields


@pytest.mark.slow
@pytest.mark.skipif(not RECORDINGS, reason=NO_RECORDINGS)
def test_a_recorded_stream_is_read_as_by_the_sdk() -> None:
    """Our message has every field of the message that the SDK's accumulator makes."""
    count = 0
    for exchange in survey_exchanges():
        if not exchange["stream"] or exchange["status"] != 200:
            continue
        body, losses = write_whole(assemble(read_stream([exchange["body"].encode("utf-8")])))
        assert losses == (), exchange["id"]
        assert mean(body) == mean(read_by_sdk(exchange["body"])), exchange["id"]
        count += 1
    assert count
