"""Processes of the benchmark of the gateway: upstream, limit, floor, load.

The *upstream* is asyncio protocols that answer at once. The *limit* is a bare passthrough of
uvicorn and aiohttp's client (decoding and encoding each body, where it translates), without the
features of a gateway. *Traced* is the gateway with spans, by the SDK's batch processor.
``python gateway_parts.py ROLE PORT UPSTREAM_PORT``.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import struct
import sys
import time
from typing import Any

import httptools

TEXT = "The North Sea is cold. " * 4
CHUNKS = 200
_BRIEF = 6
"""So many of them has a stream that is asked for the sake of its first one alone."""


def write_chat(text: str) -> dict[str, Any]:
    """Returns a small whole answer of Chat Completions."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-123456789",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 20, "total_tokens": 32},
    }


def write_messages(text: str) -> dict[str, Any]:
    """Returns a small whole answer of Messages."""
    return {
        "id": "msg_123456789",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 12, "output_tokens": 20},
    }


def write_chat_chunks() -> list[bytes]:
    """Returns the frames of a streamed answer of Chat Completions."""
    chunk = {
        "id": "chatcmpl-123456789",
        "object": "chat.completion.chunk",
        "created": 1_790_000_000,
        "model": "m",
    }
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": f" word{number}"} for number in range(CHUNKS)]
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    choices.append([{"index": 0, "delta": {}, "finish_reason": "stop"}])
    frames = [f"data: {json.dumps({**chunk, 'choices': each})}\n\n".encode() for each in choices]
    return [*frames, b"data: [DONE]\n\n"]


def write_message_chunks() -> list[bytes]:
    """Returns the frames of a streamed answer of Messages."""
    start = {**write_messages(""), "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": ""},
        },
    ]
    for number in range(CHUNKS):
        delta = {"type": "text_delta", "text": f" word{number}"}
        events.append({"type": "content_block_delta", "index": 0, "delta": delta})
    events += [
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": 20},
        },
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _whole(body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % len(data) + data


EMBEDDED, WIDTH = 16, 256
"""Texts of a request for vectors, and the length of each vector."""


def write_openai_vectors(form: str) -> dict[str, Any]:
    """Returns the vectors of some texts in OpenAI's form, as base64 or as decimal numbers."""
    row = [number / WIDTH for number in range(WIDTH)]
    packed = base64.b64encode(struct.pack(f"<{WIDTH}f", *row)).decode()
    vector = packed if form == "base64" else row
    rows = [
        {"object": "embedding", "index": place, "embedding": vector} for place in range(EMBEDDED)
    ]
    usage = {"prompt_tokens": 80, "total_tokens": 80}
    return {"object": "list", "data": rows, "model": "m", "usage": usage}


def write_ollama_vectors() -> dict[str, Any]:
    """Returns the vectors of some texts in Ollama's form."""
    row = [number / WIDTH for number in range(WIDTH)]
    return {"model": "m", "embeddings": [row] * EMBEDDED, "prompt_eval_count": 80}


WHOLE = {
    b"chat": _whole(write_chat(TEXT)),
    b"messages": _whole(write_messages(TEXT)),
    b"base64": _whole(write_openai_vectors("base64")),
    b"decimal": _whole(write_openai_vectors("decimal")),
    b"ollama": _whole(write_ollama_vectors()),
}
STREAMED = {b"chat": write_chat_chunks(), b"messages": write_message_chunks()}


class Upstream(asyncio.Protocol):
    """Answers at once, in the protocol that the path names."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.body, self.url = b"", b""

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        body, self.body = self.body, b""
        kind = b"messages" if b"messages" in self.url else b"chat"
        if b"/api/embed" in self.url:
            kind = b"ollama"
        elif b"embeddings" in self.url:
            kind = b"base64" if b"base64" in body else b"decimal"
        if b'"stream":true' not in body.replace(b" ", b""):
            self.transport.write(WHOLE[kind])
            return
        pace = 0.5 if b"slow" in body else 0.002 if b"paced" in body else 0.0
        chunks = STREAMED[kind]
        if b"brief" in body:
            chunks, pace = [*chunks[:_BRIEF], *chunks[-3:]], 0.002
        asyncio.get_running_loop().create_task(self.stream(chunks, pace))

    async def stream(self, chunks: list[bytes], pace: float) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        for chunk in chunks:
            self.transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await asyncio.sleep(pace)
        self.transport.write(b"0\r\n\r\n")


async def serve_upstream(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Upstream, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def serve_limit(port: int, upstream: int, translates: bool) -> None:
    """Serves the bare passthrough."""
    import aiohttp
    import msgspec
    import uvicorn

    session: Any = None

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal session
        if scope["type"] != "http":
            return
        if session is None:
            connector = aiohttp.TCPConnector(limit=0)
            session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        pieces = []
        while True:
            message = await receive()
            pieces.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        body = b"".join(pieces)
        if translates:
            body = msgspec.json.encode(msgspec.json.decode(body))
        url = f"http://127.0.0.1:{upstream}{scope['path']}"
        async with session.post(
            url, data=body, headers={"content-type": "application/json"}
        ) as told:
            kind = told.headers["content-type"]
            headers = [(b"content-type", kind.encode())]
            if kind.startswith("application/json"):
                answer = await told.read()
                if translates:
                    answer = msgspec.json.encode(msgspec.json.decode(answer))
                headers.append((b"content-length", str(len(answer)).encode()))
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": answer})
                return
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            rest = b""
            async for data in told.content.iter_any():
                if translates:
                    *events, rest = (rest + data).split(b"\n\n")
                    data = b"".join(_recode(event) for event in events)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    def _recode(event: bytes) -> bytes:
        if event == b"data: [DONE]":
            return event + b"\n\n"
        return b"data: %b\n\n" % msgspec.json.encode(msgspec.json.decode(event.split(b"data: ")[1]))

    uvicorn.run(
        application, port=port, log_level="error", access_log=False, lifespan="off", loop="uvloop"
    )


def serve_traced(port: int, file: str) -> None:
    """Serves the gateway where spans are told of, through the SDK's queue to nobody."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Nobody(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(Nobody()))
    trace.set_tracer_provider(provider)
    os.environ["VIBE_LLMS_CONFIG"] = file
    sys.argv = ["vibe", "serve", "gateway", "--port", str(port)]
    from vibe_llms.interfaces.cli.entry import main

    main()


async def load_streams(port: int, path: str, body: bytes, streams: int, rounds: int) -> None:
    """Reads streams, so many at once; prints how many chunks they had."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode()
    total = 0

    async def read_one() -> None:
        nonlocal total
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(rounds):
            writer.write(head + body)
            tail = b""
            while not tail.endswith(b"0\r\n\r\n"):
                data = await reader.read(65536)
                if not data:
                    raise SystemExit("the stream was cut")
                total += data.count(b"data: ")
                tail = (tail + data)[-5:]
        writer.close()

    await asyncio.gather(*(read_one() for _ in range(streams)))
    print(json.dumps({"events": total}))


async def time_firsts(path: str, ways: dict[str, tuple[int, str]], streams: int) -> None:
    """Prints how long the first chunk takes, at the median and at p99, of each way.

    They are asked in turn, so that what else the machine does falls on all of them alike; so many
    streams at once, and so often that the slowest hundredth are a dozen.
    """
    firsts: dict[str, list[float]] = {name: [] for name in ways}
    opened = {
        name: [await asyncio.open_connection("127.0.0.1", port) for _ in range(streams)]
        for name, (port, _) in ways.items()
    }
    for turn in range(_TURNS + 2):
        for name, (_, body) in ways.items():
            head = (
                f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\n\r\n{body}"
            ).encode()
            times = await asyncio.gather(*(_time_first(*each, head) for each in opened[name]))
            if turn >= 2:  # what is made once has been made
                firsts[name] += times
    told = {}
    for name, times in firsts.items():
        times.sort()
        told[name] = [times[len(times) // 2], times[int(len(times) * 0.99) - 1]]
    print(json.dumps(told))


_TURNS = 40


async def _time_first(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes
) -> float:
    started, first, tail = time.perf_counter(), 0.0, b""
    writer.write(asked)
    while not tail.endswith(b"0\r\n\r\n"):
        data = await reader.read(65_536)
        if not data:
            raise SystemExit("the stream was cut")
        if not first and b"data:" in data:
            first = time.perf_counter() - started
        tail = (tail + data)[-5:]
    return first


async def hold_streams(port: int, path: str, body: bytes, streams: int) -> None:
    """Begins so many streams, says when all have, and leaves them when its input ends."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    )

    async def begin() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + body)
        told = b""
        while b"data:" not in told:
            told += await reader.read(65_536)
        return writer

    writers = []
    for start in range(0, streams, 100):  # no more come at once than a backlog takes
        writers += await asyncio.gather(*(begin() for _ in range(min(100, streams - start))))
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for writer in writers:
        writer.close()


def find_port() -> int:
    """Returns a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    role, *arguments = sys.argv[1:]
    if role == "upstream":
        import resource

        import uvloop

        resource.setrlimit(
            resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2
        )
        uvloop.run(serve_upstream(int(arguments[0])))
    elif role in ("limit", "limit-translating"):
        serve_limit(int(arguments[0]), int(arguments[1]), role == "limit-translating")
    elif role == "traced":
        serve_traced(int(arguments[0]), arguments[1])
    elif role == "firsts":
        path, asked, streams = arguments
        told = {name: tuple(each) for name, each in json.loads(asked).items()}
        asyncio.run(time_firsts(path, told, int(streams)))
    elif role == "hold":
        port, path, body, streams = arguments
        asyncio.run(hold_streams(int(port), path, body.encode(), int(streams)))
    elif role == "load":
        port, path, body, streams, rounds = arguments
        asyncio.run(load_streams(int(port), path, body.encode(), int(streams), int(rounds)))
