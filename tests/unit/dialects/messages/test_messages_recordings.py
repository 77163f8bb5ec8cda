"""Recorded exchanges of real clients and the real vendor round-trip, or the loss is reported."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest

from fidelity.meanings import distil
from support.vendors.messages_exchanges import (
    CONTROLS,
    NO_RECORDINGS,
    RECORDINGS,
    assemble,
    read_stream,
    read_whole,
    survey_exchanges,
    write_whole,
)
from vibe_llms.dialects.messages import (
    Quirks,
    nativize_request,
    normalize_request,
    produce_error,
)
from vibe_llms.exceptions import ContextOverflowError, ProviderError
from vibe_llms.models.integrators import ModelsIntegrator

mean = functools.partial(distil, "messages")

pytestmark = pytest.mark.skipif(not RECORDINGS, reason=NO_RECORDINGS)


def describe(model: str, **facts: Any) -> Any:
    """Return the attributes of a model with all controls of the dialect, or with none."""
    return ModelsIntegrator(provider="anthropic").integrate(model, facts=facts)


@pytest.mark.slow
@pytest.mark.parametrize("facts", [{}, {"controls": CONTROLS}], ids=["unknown", "known"])
def test_a_recorded_request_round_trips(facts: dict[str, Any]) -> None:
    """With the same meaning, and without a loss."""
    count = 0
    for exchange in survey_exchanges():
        request = exchange["request"]
        attributes = describe(request["model"], **facts)
        normalized = normalize_request(request, attributes)
        native = nativize_request(
            normalized.value,
            attributes,
            Quirks(),
            provider="anthropic",
            streaming=bool(request.get("stream")),
        )
        assert normalized.losses == native.losses == (), exchange["id"]
        assert mean(native.value) == mean(request), exchange["id"]
        count += 1
    assert count


def test_a_recorded_answer_round_trips() -> None:
    """A complete answer becomes canisters, and these the same body."""
    count = 0
    for exchange in survey_exchanges():
        if exchange["stream"] or exchange["status"] != 200:
            continue
        response = assemble(read_whole(exchange["body"].encode("utf-8")))
        body, losses = write_whole(response)
        assert response.losses == losses == (), exchange["id"]
        assert mean(body) == mean(json.loads(exchange["body"])), exchange["id"]
        count += 1
    assert count


def test_a_recorded_stream_equals_the_complete_answer() -> None:
    """The message of a stream, read as a complete body, gives the same answer."""
    count = 0
    for exchange in survey_exchanges():
        if not exchange["stream"] or exchange["status"] != 200:
            continue
        streamed, losses = write_whole(assemble(read_stream([exchange["body"].encode("utf-8")])))
        assert losses == (), exchange["id"]
        whole, _ = write_whole(assemble(read_whole(streamed)))
        assert mean(whole) == mean(streamed), exchange["id"]
        count += 1
    assert count


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7, 61, 1024])
def test_it_does_not_matter_where_a_recorded_stream_is_split(size: int) -> None:
    """Inside a word, a character or a line: the answer is the same."""
    for exchange in survey_exchanges():
        if not exchange["stream"] or exchange["status"] != 200:
            continue
        data = exchange["body"].encode("utf-8")
        expected, _ = write_whole(assemble(read_stream([data])))
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        body, _ = write_whole(assemble(read_stream(pieces)))
        assert body == expected, exchange["id"]


def test_a_recorded_error_keeps_its_fault() -> None:
    """And the vendor's message."""
    seen = set()
    for exchange in survey_exchanges():
        if exchange["status"] == 200:
            continue
        body = json.loads(exchange["body"])
        error = produce_error(body, provider="anthropic", status=exchange["status"])
        if "too long" in body["error"]["message"]:
            assert isinstance(error, ContextOverflowError)
            assert error.tokens is not None
        else:
            assert isinstance(error, ProviderError)
            assert error.vendor_type == body["error"]["type"]
        seen.add(exchange["status"])
    assert seen
