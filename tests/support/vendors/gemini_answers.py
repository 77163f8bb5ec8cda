"""Reading and writing of generateContent requests and answers, for tests of the dialect."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from vibe_llms.dialects.generate_content import (
    PROTOCOL,
    Decoder,
    Quirks,
    nativize_request,
    normalize_request,
)
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.canisters import AnyCanister, UserCanister
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.definitions import produce_control
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.keys import KEYS, KeyRole
from vibe_llms.providers.assembly import Assembler

ASKED = Request(canisters=(UserCanister("Hello"),))
CONTROLS = tuple(
    produce_control(key.name, key.definition) for key in KEYS if key.role is KeyRole.CONTROL
)


def integrate(name: str = "gemini-unheard-of", *, knows_controls: bool = True) -> ModelAttributes:
    """Return the attributes of a model, with all controls or none."""
    attributes = ModelsIntegrator(provider="google").integrate(name)
    return attrs.evolve(attributes, controls=CONTROLS if knows_controls else ())


def assemble(events: Iterable[StreamEvent], provider: str = "google") -> Response:
    """Return the response from events, with deterministic ids."""
    numbers = itertools.count()
    assembler = Assembler(
        provider=provider,
        model="asked",
        protocol=PROTOCOL,
        produce_id=lambda: f"id-{next(numbers)}",
        now=lambda: ASKED.canisters[0].timestamp,
    )
    for event in events:
        assembler.feed(event)
    return Response(
        request=ASKED,
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


def decode(body: bytes | Mapping[str, Any]) -> Response:
    """Return the response in a whole body."""
    return assemble(Decoder(provider="google", model="asked").decode_response(body))


def decode_chunks(chunks: Iterable[bytes | Mapping[str, Any]]) -> Response:
    """Return the response in a stream."""
    decoder = Decoder(provider="google", model="asked")
    events = [event for chunk in chunks for event in decoder.decode(chunk)]
    return assemble([*events, *decoder.finish()])


def read_turn(*parts: Mapping[str, Any]) -> AnyCanister:
    """Return the only canister of an answer with these parts."""
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
    (canister,) = decode({"candidates": [candidate]}).canisters
    return canister


def round_trip_request(
    body: Mapping[str, Any], kept: dict[str, Any] | None = None, *, knows_controls: bool = False
) -> dict[str, Any]:
    """Read and write a client's request, without losses; return the written one.

    Args:
        kept: Receives the normalized request, under ``request``.
    """
    attributes = integrate(knows_controls=knows_controls)
    read = normalize_request(body, attributes)
    written = nativize_request(read.value, attributes, Quirks(), provider="google")
    assert (read.losses, written.losses) == ((), ())
    if kept is not None:
        kept["request"] = read.value
    return dict(written.value)
