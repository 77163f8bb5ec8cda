"""The digest of a request names what it means."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import requests, timestamps
from vibe_llms.messages.canisters import (
    AnyCanister,
    InvocationCanister,
    ModelCanister,
    Origin,
    ResultCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request


def _strip(canister: AnyCanister, moment: Any) -> AnyCanister:
    """Changes all that is circumstance in a canister."""
    changes: dict[str, Any] = {"id": "other", "timestamp": moment}
    if isinstance(canister, ModelCanister):
        changes["turn_id"] = "another"
        if canister.origin is not None:
            changes["origin"] = attrs.evolve(
                canister.origin, response_id="r", usage=Usage(input_tokens=1)
            )
    if hasattr(canister, "invocation_id"):
        changes["invocation_id"] = f"renamed {canister.invocation_id}"
    changes["content"] = [
        attrs.evolve(item, data=None) if getattr(item, "data", None) is not None else item
        for item in canister.content
    ]
    return attrs.evolve(canister, **changes)


@pytest.mark.slow
@given(requests, timestamps)
def test_circumstances_do_not_show_in_a_digest(request_: Request, moment: Any) -> None:
    """Ids, moments, turns, usage, the conversation, and where media lie are no meaning."""
    other = attrs.evolve(
        request_,
        canisters=[_strip(canister, moment) for canister in request_.canisters],
        conversation_id="another",
    )

    assert other.digest() == request_.digest()
    assert re.fullmatch("[0-9a-f]{64}", request_.digest())


BASE = Request(
    canisters=[
        UserCanister("hi"),
        InvocationCanister(invocation_id="a", name="n", origin=Origin(provider="p", model="m")),
        InvocationCanister(invocation_id="b", name="n"),
        ResultCanister("1", invocation_id="a"),
        ResultCanister([ImageContent(mime_type="image/png", data=b"x")], invocation_id="b"),
    ]
)


def _replace(index: int, **changes: Any) -> Request:
    canisters = list(BASE.canisters)
    canisters[index] = attrs.evolve(canisters[index], **changes)
    return attrs.evolve(BASE, canisters=canisters)


@pytest.mark.parametrize(
    "other",
    [
        attrs.evolve(BASE, model="m"),
        attrs.evolve(BASE, controls={"temperature": 1}),
        attrs.evolve(BASE, controls={"temperature": True}),
        attrs.evolve(BASE, invocation_choice="none"),
        attrs.evolve(BASE, schema={}),
        attrs.evolve(BASE, continuation=True),
        attrs.evolve(BASE, invocables=[InvocableDescription(name="n", description="d", schema={})]),
        _replace(0, content="ho"),
        _replace(0, content=[TextualContent("h"), TextualContent("i")]),
        _replace(1, name="o"),
        _replace(1, arguments='{"a": 1}'),
        _replace(1, origin=Origin(provider="p", model="o")),
        _replace(3, invocation_id="b"),
        _replace(3, is_error=True),
        _replace(4, content=[ImageContent(mime_type="image/png", data=b"y")]),
        attrs.evolve(BASE, canisters=BASE.canisters[:-1]),
    ],
)
def test_every_difference_in_meaning_shows(other: Request) -> None:
    """What the model would see otherwise, or answer otherwise, has another digest."""
    assert other.digest() != BASE.digest()


def test_a_digest_does_not_depend_on_the_process() -> None:
    """The digest of a fixed request is a fixed word: a cache outlives the process."""
    request = Request(canisters=[UserCanister("hi")], controls={"b": 1.0, "a": {"d": 1, "c": 2}})
    same = Request(canisters=[UserCanister("hi")], controls={"a": {"c": 2, "d": 1}, "b": 1})

    assert request.digest() == same.digest()
    assert request.digest() == "3febfd6d0b3e7cd4d9461e8168e44ee58d65942613ed45881dc220013b7a7852"


@given(st.permutations(["a", "b", "c"]))
def test_the_order_of_properties_shows_in_a_digest(keys: list[str]) -> None:
    """A model held to a schema by a grammar answers in the order of its properties."""
    schema = {"properties": {key: {"type": "string"} for key in keys}}
    ordered = {"properties": {key: {"type": "string"} for key in sorted(keys)}}

    def describe(value: dict[str, Any]) -> Request:
        return attrs.evolve(
            BASE, invocables=[InvocableDescription(name="n", description="d", schema=value)]
        )

    for one, other in (
        (attrs.evolve(BASE, schema=schema), attrs.evolve(BASE, schema=ordered)),
        (describe(schema), describe(ordered)),
    ):
        assert (one.digest() == other.digest()) is (keys == sorted(keys)) is (one == other)
