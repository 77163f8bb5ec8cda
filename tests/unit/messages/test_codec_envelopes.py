"""Requests and responses as JSON documents."""

from __future__ import annotations

from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given

from strategies.messages import requests, responses
from vibe_llms.exceptions import CodecError
from vibe_llms.messages.canisters import AssistantCanister, Origin, UserCanister
from vibe_llms.messages.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    produce_converter,
)
from vibe_llms.messages.codec.converter import structure
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

USER = UserCanister("hi")


@given(requests)
def test_a_request_reads_back_equal(request_: Request) -> None:
    """A request crosses to another process and back without a change."""
    data = encode_request(request_)

    again = decode_request(data)

    assert again == request_
    assert encode_request(again) == data
    assert structure(data, Request) == request_
    assert msgspec.json.encode(produce_converter().unstructure(request_)) == data


@given(responses)
def test_a_response_reads_back_equal(response: Response) -> None:
    """A response, with its request, its account and its losses, likewise."""
    data = encode_response(response)

    again = decode_response(data)

    assert again == response
    assert encode_response(again) == data
    assert structure(data, Response) == response
    assert msgspec.json.encode(produce_converter().unstructure(response)) == data


def _ask(**fields: Any) -> Request:
    return Request(canisters=[USER], **fields)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ({"a": 1}, {"a": 1.0}),
        ({"a": 0.0}, {"a": -0.0}),
        ({"a": 2**60}, {"a": float(2**60)}),
    ],
)
def test_equal_requests_have_equal_bytes(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Neither the order of keys nor the kind of a whole number shows in what is written."""

    def write(value: dict[str, Any]) -> bytes:
        invocable = InvocableDescription(name="n", description="d", schema=value)
        return encode_request(_ask(controls=value, schema=value, invocables=[invocable]))

    assert _ask(controls=one, schema=one) == _ask(controls=other, schema=other)
    assert write(one) == write(other)


def test_true_is_not_written_as_one() -> None:
    """Python holds them for equal; a vendor does not."""
    assert b'"a":true' in encode_request(_ask(controls={"a": True}))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 2**64, object(), b"x", {1: 2}])
def test_what_json_cannot_say_is_refused_with_its_place(value: Any) -> None:
    """Nothing is written as null, as a text or as a near number in its stead."""
    with pytest.raises(CodecError) as caught:
        encode_request(_ask(controls={"a": [1, value]}))

    assert caught.value.path == "$.controls.a[1]"


def test_half_of_a_surrogate_pair_in_a_control_is_named() -> None:
    """The error names the control which holds the text."""
    with pytest.raises(CodecError, match="surrogate") as caught:
        encode_request(_ask(controls={"stop": ["\ud800"]}))

    assert caught.value.path == "$.controls.'stop'[0]"


def test_an_account_that_is_no_number_is_refused() -> None:
    """A duration that is not a number would be written as null."""
    origin = Origin(provider="p", model="m")
    metadata = ResponseMetadata(origin=origin, duration_seconds=float("nan"))

    with pytest.raises(CodecError) as caught:
        encode_response(Response(request=_ask(), canisters=(), metadata=metadata))

    assert caught.value.path == "$.metadata.duration_seconds"


def test_the_rules_of_a_request_hold_on_reading() -> None:
    """A request that leaves nothing to answer does not read, and the path says which canister."""
    data = encode_request(
        Request(canisters=[USER, AssistantCanister("hi")], continuation=True)
    ).replace(b'"continuation":true', b'"continuation":false')

    with pytest.raises(CodecError, match="leaves nothing to answer") as caught:
        decode_request(data)

    assert caught.value.path == "$.canisters[1]"


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        (b'"strict":false', b'"strict":0', "$.strict"),
        (b'"strict":false', b'"stricter":false', "$.stricter"),
        (b'"controls":{}', b'"controls":[]', "$.controls"),
        (b'"type":"text"', b'"type":"txt"', "$.canisters[0].content[0].type"),
        (b'"invocables":[]', b'"invocables":[{"name":"n"}]', "$.invocables[0].description"),
    ],
)
def test_a_mistake_in_a_request_is_named_with_its_path(old: bytes, new: bytes, path: str) -> None:
    """The path leads from the envelope down to the mistake."""
    data = encode_request(_ask())
    assert old in data

    with pytest.raises(CodecError) as caught:
        decode_request(data.replace(old, new))

    assert caught.value.path == path


def test_few_words_make_a_request() -> None:
    """What has a default may be left out."""
    line = b'{"canisters":[{"role":"user","timestamp":"2025-11-15T10:00:00Z","id":"a"}]}'

    request = decode_request(line)

    assert attrs.evolve(request, canisters=[USER]) == _ask()
