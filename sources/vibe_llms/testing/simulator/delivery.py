"""Delivery of an answer: events as bytes, and all faults on the way.

Amazon's event streams have their own framing. In them Bedrock sends its own events, or those of
Messages.
"""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.protocols import (
    SimulatedFrame,
    SimulatedProtocol,
    SimulatedRequest,
)
from vibe_llms.testing.simulator.refusals import SimulatedRefusal
from vibe_llms.testing.simulator.rendering import NOT_A_CHARACTER

if TYPE_CHECKING:
    from aiohttp import web


AMAZON_TYPE = "application/vnd.amazon.eventstream"
TEXT_HEADER_TYPE = 7
"""Type number of a header whose value is text."""


def encode_event(payload: bytes, event: str) -> bytes:
    """Return a message of Amazon's event stream.

    A message consists of its length, the length of its headers, a checksum of both lengths, the
    headers, the payload, and a checksum of everything.
    """
    is_exception = event.endswith("Exception")
    names = {
        ":exception-type" if is_exception else ":event-type": event,
        ":content-type": "application/json",
        ":message-type": "exception" if is_exception else "event",
    }
    headers = b"".join(
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", TEXT_HEADER_TYPE, len(value))
        + value.encode()
        for name, value in names.items()
    )
    # Two lengths and two checksums of four bytes each.
    prelude = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + payload
    return message + struct.pack(">I", zlib.crc32(message))


def encode_chunk(data: bytes) -> bytes:
    """Wrap the JSON of an event of another protocol in a message, as InvokeModel does."""
    payload = json.dumps({"bytes": base64.b64encode(data).decode("ascii")}).encode()
    return encode_event(payload, "chunk")


RATE_LIMITED = SimulatedRefusal(429, "rate", "You have sent too many requests.", retry_after=1)
OVERLOADED = SimulatedRefusal(529, "overloaded", "Overloaded")
SSE_TYPE, NDJSON_TYPE = "text/event-stream; charset=utf-8", "application/x-ndjson"
STREAM_TYPES = {
    "sse": SSE_TYPE,
    "ndjson": NDJSON_TYPE,
    "amazon": AMAZON_TYPE,
    "amazon_chunks": AMAZON_TYPE,
}
BINARY_FRAMINGS = ("amazon", "amazon_chunks")
PAGE = b"<!DOCTYPE html><html><body><h1>Welcome to the gateway</h1></body></html>\n"


class SocketCut(Exception):
    """The socket must be closed now."""


def encode_json(value: Any, conditions: Conditions) -> bytes:
    """Encode plain data as JSON, with the faults of the conditions."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "deep_nesting" in conditions and text.endswith("}"):
        depth = conditions.count("deep_nesting", 100_000)
        text = f'{text[:-1]},"nested":{"[" * depth}{"]" * depth}}}'
    data = text.encode("utf-8", "surrogatepass")
    # A placeholder character stands for these bytes, which a text cannot contain.
    return data.replace(NOT_A_CHARACTER.encode(), b"\xff\xfe")


def choose_framing(protocol: SimulatedProtocol, request: SimulatedRequest) -> str:
    """Return the framing of an answer's events: that of the protocol, or Amazon's."""
    is_chunked = request.path.endswith("/invoke-with-response-stream")
    return "amazon_chunks" if is_chunked else protocol.framing


def encode_frame(frame: SimulatedFrame, framing: str, conditions: Conditions) -> bytes:
    """Write one event."""
    if isinstance(frame.data, str):
        data = frame.data.encode()
    else:
        data = encode_json(frame.data, conditions)
    if framing == "amazon":
        return encode_event(data, frame.event)
    if framing == "amazon_chunks":
        return encode_chunk(data)
    if framing == "ndjson":
        return data + (b"\r\n" if "crlf" in conditions else b"\n")
    lines = [b"event: " + frame.event.encode()] if frame.event else []
    lines += [b"data: " + data, b"", b""]
    line_break = b"\n"
    if "crlf" in conditions:
        line_break = b"\r\n"
    elif "cr" in conditions:
        line_break = b"\r"
    return line_break.join(lines)


def _frame_pieces(
    frames: Iterable[SimulatedFrame], protocol: SimulatedProtocol, request: SimulatedRequest
) -> Iterator[tuple[bytes, bool]]:
    """Yield bytes, and whether they count as a chunk, as byte order marks and comments do not."""
    conditions = request.conditions
    if "bom" in conditions:
        yield b"\xef\xbb\xbf", False
    garbage_position = conditions.count("garbage_line", 1) if "garbage_line" in conditions else -1
    errors = _find_stream_errors(conditions)
    framing = choose_framing(protocol, request)
    # Deep nesting affects the first event alone, which then has the size of a whole answer.
    frame_conditions = conditions
    for position, frame in enumerate(frames):
        if position == garbage_position:
            yield (b"" if protocol.framing == "ndjson" else b"data: ") + b'{"oops\x01 ]]\n\n', False
        if position in errors:
            error = protocol.write_stream_error(errors[position], request)
            yield encode_frame(error, framing, frame_conditions), True
            return
        if frame.ends and "no_terminator" in conditions:
            continue
        if frame.data == "[DONE]" and "no_done" in conditions:
            continue
        if "comments" in conditions and framing not in BINARY_FRAMINGS:
            yield (b"\n" if protocol.framing == "ndjson" else b": keep-alive\n\n"), False
        yield encode_frame(frame, framing, frame_conditions), True
        frame_conditions = _without(frame_conditions, "deep_nesting")


def _find_stream_errors(conditions: Conditions) -> dict[int, SimulatedRefusal]:
    """Map the number of chunks before an error to the error."""
    errors = {}
    if "midstream_rate_limit" in conditions:
        errors[conditions.count("midstream_rate_limit", 3)] = RATE_LIMITED
    if "midstream_overloaded" in conditions:
        errors[conditions.count("midstream_overloaded", 3)] = OVERLOADED
    return errors


def _without(conditions: Conditions, name: str) -> Conditions:
    if name not in conditions:
        return conditions
    return Conditions({key: value for key, value in conditions.values.items() if key != name})


async def produce_stream(
    frames: Iterable[SimulatedFrame], protocol: SimulatedProtocol, request: SimulatedRequest
) -> AsyncIterator[bytes]:
    """Create the bytes of a stream, one chunk at a time.

    Raises:
        SocketCut: The socket must be closed instead of ending the stream.
    """
    conditions = request.conditions
    stall = conditions.count("stall_at_chunk", 2) if "stall_at_chunk" in conditions else -1
    cut = conditions.count("cut_at_chunk", 2) if "cut_at_chunk" in conditions else -1
    sent = 0
    for data, counts in _frame_pieces(frames, protocol, request):
        if counts and sent == stall:
            await asyncio.Event().wait()  # until the client disconnects
        if counts and sent == cut:
            raise SocketCut
        if "slow" in conditions:
            await asyncio.sleep(conditions.count("slow", 10) / 1000)
        for piece in split_bytes(data, conditions):
            yield piece
        sent += counts
    # A stream with fewer chunks than a fault names stalls, or is cut, after its last chunk.
    if stall >= 0 and sent <= stall:
        await asyncio.Event().wait()
    if cut >= sent:
        raise SocketCut


def split_bytes(data: bytes, conditions: Conditions) -> Iterator[bytes]:
    """Cut bytes where the fault requires it."""
    size = max(1, conditions.count("split_bytes", 1)) if "split_bytes" in conditions else len(data)
    for start in range(0, len(data), size or 1):
        yield data[start : start + size]


async def send_stream(
    http_request: web.Request, headers: dict[str, str], pieces: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Send pieces as they arrive; SocketCut closes the socket."""
    from aiohttp import web

    response = web.StreamResponse(headers=headers)
    await response.prepare(http_request)
    try:
        async for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    except SocketCut:
        cut_connection(http_request)
    return response


def cut_connection(http_request: web.Request) -> None:
    """Close the socket of a request, even in the middle of a response."""
    if http_request.transport is not None:
        http_request.transport.close()  # the client still receives earlier data
