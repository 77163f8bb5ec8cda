"""Requests and responses as JSON documents."""

from __future__ import annotations

import json
from typing import Any, cast

import attrs
import msgspec
import pytest
from hypothesis import given

from strategies.messages import json_objects, requests, responses
from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.codec.canonical import encode_document
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.codec.decoding import read_tree
from vibe_llms.messages.codec.envelopes import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from vibe_llms.messages.contents import CacheHint
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request, Response

USER = UserCanister("hi")


@pytest.mark.slow
@given(requests)
def test_a_request_reads_back_equal(request_: Request) -> None:
    """A request crosses to another process and back without a change."""
    data = encode_request(request_)

    again = decode_request(data)

    assert again == request_
    assert encode_request(again) == data
    assert read_tree(json.loads(data), Request) == request_
    assert msgspec.json.encode(produce_converter().unstructure(request_)) == data


@pytest.mark.slow
@given(responses)
def test_a_response_reads_back_equal(response: Response) -> None:
    """A response, with its request, its account and its losses, likewise."""
    data = encode_response(response)

    again = decode_response(data)

    assert again == response
    assert encode_response(again) == data
    assert read_tree(json.loads(data), Response) == response
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
        ({"a": (1, 2)}, {"a": [1, 2]}),
    ],
)
def test_equal_requests_have_equal_bytes(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Neither the order of controls nor the kind of a whole number shows in what is written."""
    assert _ask(controls=one) == _ask(controls=other)
    assert encode_request(_ask(controls=one)) == encode_request(_ask(controls=other))


@given(json_objects, json_objects)
def test_requests_are_equal_when_their_bytes_are(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    """Schemas are equal when they are written alike, in the order in which they are given."""
    reversed_ = dict(reversed(one.items()))

    for first, second in ((one, other), (one, reversed_), (one, {**one})):
        for field in ("schema", "controls"):
            left, right = _ask(**{field: first}), _ask(**{field: second})
            assert (left == right) is (encode_request(left) == encode_request(right))


def test_the_order_of_properties_is_kept() -> None:
    """It tells a model that is held to a schema what to write first."""
    schema = {"properties": {"reason": {"type": "string"}, "answer": {"type": "string"}}}
    invocable = InvocableDescription(name="n", description="d", schema=schema)
    request = _ask(schema=schema, invocables=[invocable])

    again = decode_request(encode_request(request))

    for kept in (again.schema, again.invocables[0].schema):
        assert kept is not None
        assert list(cast(Any, kept)["properties"]) == ["reason", "answer"]
    assert request != _ask(
        schema={"properties": dict(reversed(schema["properties"].items()))}, invocables=[invocable]
    )


def test_true_is_not_written_as_one() -> None:
    """Python holds them for equal; a vendor does not, and neither do two requests."""
    assert b'"a":true' in encode_request(_ask(controls={"a": True}))
    assert _ask(controls={"a": True}) != _ask(controls={"a": 1})


def test_half_of_a_surrogate_pair_in_a_control_is_named() -> None:
    """The error names the control which holds the text, and comes where the request is made."""
    with pytest.raises(RequestError, match="surrogate") as caught:
        _ask(controls={"stop": ["\ud800"]})

    assert caught.value.path == "controls.stop[0]"


@pytest.mark.slow
def test_a_bottomless_document_is_refused() -> None:
    """What nests too deeply is our error on writing and on reading."""
    tree: list[Any] = []
    for _ in range(100_000):
        tree = [tree]
    deep = b'{"a":' * 200 + b"1" + b"}" * 200

    with pytest.raises(CodecError, match="cannot be written"):
        encode_document(tree)
    with pytest.raises(CodecError, match="nest deeper"):
        decode_request(encode_request(_ask()).replace(b'"controls":{}', b'"controls":' + deep))
    while tree:  # CPython would take its stack to free it at once
        tree = tree.pop()


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


def test_a_request_without_hints_is_written_as_before_there_were_any() -> None:
    """So that recordings and caches keep their keys."""
    tool = InvocableDescription(name="f", description="d", schema={})
    plain = Request(canisters=[USER], invocables=[tool])
    hinted = attrs.evolve(plain, cache=CacheHint("1h"))
    marked = Request(canisters=[USER], invocables=[tool, CacheHint()])

    assert b"cache" not in encode_request(plain)
    for request in (hinted, marked):
        assert decode_request(encode_request(request)) == request
        assert request.digest() != plain.digest()
