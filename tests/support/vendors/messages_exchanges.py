"""Exchanges in Anthropic Messages: replay for tests, and comparison by meaning."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vibe_llms.dialects.messages import Decoder, nativize_response
from vibe_llms.events.stream import ResponseFinishedEvent, StreamEvent
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response, ResponseMetadata
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.providers.assembly import Assembler
from vibe_llms.wire.sse import SseFramer

RECORDINGS = os.environ.get("VIBE_LLMS_RECORDINGS", "")
NO_RECORDINGS = "VIBE_LLMS_RECORDINGS names no folder of recordings"

_PART = {"kind": "interval", "minimum": 0, "maximum": 1}
_COUNT = {"kind": "interval", "minimum": 1, "grade": 1}
CONTROLS = {
    "max_tokens": _COUNT,
    "parallel_invocations": {"kind": "boolean"},
    "reasoning_budget_tokens": _COUNT,
    "reasoning_effort": {"kind": "options", "options": ["none", "low", "medium", "high", "max"]},
    "reasoning_summary": {"kind": "options", "options": ["auto"]},
    "service_tier": {"kind": "text"},
    "stop": {"kind": "sequence", "element": {"kind": "text"}},
    "temperature": _PART,
    "top_k": _COUNT,
    "top_p": _PART,
}
KNOWN = ModelsIntegrator(provider="anthropic").integrate("model", facts={"controls": CONTROLS})
"""A model with all controls that the dialect has."""


def survey_exchanges() -> Iterator[dict[str, Any]]:
    """Yield the recorded exchanges."""
    with (Path(RECORDINGS) / "anthropic_messages.jsonl").open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def assemble(events: Iterable[StreamEvent]) -> Response:
    """Assemble a response, as a provider does."""
    assembler = Assembler(provider="anthropic", model="asked", protocol="messages")
    last: StreamEvent | None = None
    for event in events:
        last = assembler.feed(event)
    assert isinstance(last, ResponseFinishedEvent)
    return Response(
        request=Request(canisters=(UserCanister("?"),)),
        canisters=assembler.produce_canisters(),
        metadata=ResponseMetadata(origin=assembler.origin, native=assembler.native),
        losses=assembler.losses,
    )


def read_stream(chunks: Iterable[bytes]) -> list[StreamEvent]:
    """Decode a streamed answer from pieces of its bytes."""
    framer, decoder = SseFramer(Limits()), Decoder(provider="anthropic", model="asked")
    events = []
    for chunk in chunks:
        for frame in framer.feed(chunk):
            events += decoder.decode(frame.data, frame.event)
    for frame in framer.finish():
        events += decoder.decode(frame.data, frame.event)
    return [*events, *decoder.finish()]


def read_whole(body: Mapping[str, Any] | bytes) -> list[StreamEvent]:
    """Decode an answer in one piece."""
    return Decoder(provider="anthropic", model="asked").decode_response(body)


def write_whole(response: Response) -> tuple[Any, tuple[Loss, ...]]:
    """Return the body of a response, and the losses."""
    translation = nativize_response(response)
    return translation.value, translation.losses


def simplify(value: Any) -> Any:
    """Return JSON in a normal form, so that values with the same meaning are equal.

    Null and missing are equal, and so are a text and a list with one text block. Without
    ``strict`` a tool is not strict, and without ``is_error`` a result is not an error. An empty
    result has no content.
    """
    if isinstance(value, list):
        return [simplify(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {name: simplify(item) for name, item in value.items() if item is not None}
    if isinstance(plain.get("content"), str) and ("role" in plain or "tool_use_id" in plain):
        text = plain["content"]
        plain["content"] = [{"type": "text", "text": text}] if text else []
    if plain.get("type") == "tool_result" and not plain.get("content"):
        plain.pop("content", None)
    if plain.get("type") == "text" and plain.get("citations") == []:
        del plain["citations"]
    for name in ("strict", "is_error"):
        if plain.get(name) is False and ("input_schema" in plain or "tool_use_id" in plain):
            del plain[name]
    return plain


def simplify_request(request: Mapping[str, Any]) -> Any:
    """Return a request in a normal form, so that requests with the same meaning are equal."""
    plain = simplify(dict(request))
    if isinstance(plain.get("system"), str):
        plain["system"] = [{"type": "text", "text": plain["system"]}]
    for name in ("system", "tools"):
        if not plain.get(name):
            plain.pop(name, None)
    if plain.get("tool_choice") == {"type": "auto"} or "tools" not in plain:
        plain.pop("tool_choice", None)
    if plain.get("stream") is False:
        del plain["stream"]
    return plain
