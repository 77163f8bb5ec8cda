"""Responses without random ids and times, to compare two ways of reading an answer."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from support.vendors.hostility import ABSENT
from vibe_llms.events.stream import StreamEvent
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.codec.envelopes import decode_response, encode_response
from vibe_llms.messages.identities import access_now
from vibe_llms.messages.requests import Request, Response
from vibe_llms.providers.assembly import Assembler

REQUEST = Request(canisters=[UserCanister("hello")])
NOW = access_now()

OTHERS = (
    ABSENT, None, 7, 0, -1, 0.5, 10**25, "", " ", "x", "stop", "length", "max_tokens", "STOP",
    "tool_calls", "error", "stop_sequence", "incomplete", [], ["x"], {}, {"x": 1}, {"$x": None},
    {"message": "no"}, True, False,
)  # fmt: skip


def assemble(protocol: str, events: Iterable[StreamEvent]) -> Response:
    assembler = Assembler(provider="p", model="asked", protocol=protocol)
    for event in events:
        assembler.feed(event)
    return assembler.produce_response(REQUEST, duration_seconds=0.0, first_seconds=0.0)


def forget_chance(response: Response) -> str:
    """Encode a response without ids and times; check that it can be decoded again."""
    canisters = tuple(
        attrs.evolve(canister, id="i", timestamp=NOW, turn_id="t")  # type: ignore[call-arg]
        for canister in response.canisters
    )
    written = encode_response(attrs.evolve(response, canisters=canisters))
    assert encode_response(decode_response(written)) == written
    return written if isinstance(written, str) else written.decode()
