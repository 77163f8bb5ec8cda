"""Server on loopback that answers like a vendor, and is never the bottleneck.

Everything it sends is composed beforehand; it parses of a request what it must, and runs in a
process of its own, which gives way to the client's. A client is measured by its own CPU time. What
is wanted is said in the path: ``/at-once/v1/chat/completions`` sends a stream in one write,
``/paced`` one write a chunk, and ``/slow`` one chunk in a while, and ``/short`` a stream of two
words at once, ``/silent`` one without usage (Chat Completions only). ``"stream": true`` in the
body asks for a stream; what is not streamed comes at once, behind ``/late`` after the time that a
vendor takes at least, and behind ``/acting`` it is a call of the tool ``look`` each time, with an
id of its own. Streams behind ``/held`` are slow, and none begins before the gate is open: who
asks for ``/gate/open`` opens it. A stream behind ``/calls`` is a call of the tool ``look``, and
two words once the tool has answered (Chat Completions only).

Run as a program it serves until its standard input is closed, and prints its port first.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

CHUNKS = 1_000
"""How many chunks of text a stream has."""

WORD = "word "
"""The text of each chunk."""

SLOW_SECONDS = 0.25
"""How long a slow stream waits after each chunk, of which it has few."""

SLOW_CHUNKS = int(os.environ.get("SLOW", "100"))

SHORT_CHUNKS = 2
"""How many chunks a short stream has: as few as a small answer."""

LATE_SECONDS = 0.5
"""How long an answer takes behind ``/late``: as long as one of a quick model."""

PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
"""The three protocols and where each is spoken."""

FURTHER_PATHS = {
    "show": "/api/show",
    "gemini": ":generateContent",
    "ollama": "/api/chat",
    "models": "/v1/converse/models",
    "converse": "/v1/converse",
}
"""Paths of further protocols, which are only answered whole."""


def _line(data: dict[str, Any], event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def compose_chat(count: int, *, has_usage: bool = True) -> list[bytes]:
    """Composes a stream of Chat Completions."""
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return _line({**common, "choices": [choice], "usage": None})

    usage = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": count + 9}
    return [
        chunk({"role": "assistant", "content": ""}),
        *[chunk({"content": WORD})] * count,
        chunk({}, "stop"),
        *([_line({**common, "choices": [], "usage": usage})] if has_usage else []),
        b"data: [DONE]\n\n",
    ]


def compose_called_chat() -> list[bytes]:
    """Compose a stream of Chat Completions that calls the tool ``look``."""
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    function = {"name": "look", "arguments": '{"at":"rain"}'}
    call = {"index": 0, "id": CALL_ID.decode(), "type": "function", "function": function}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    choices: list[tuple[Any, str | None]] = [
        ({"role": "assistant", "content": None, "tool_calls": [call]}, None),
        ({}, "tool_calls"),
    ]
    return [
        *(
            _line({**common, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
            for delta, reason in choices
        ),
        _line({**common, "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def compose_messages(count: int) -> list[bytes]:
    """Composes a stream of Messages."""
    text = {"type": "text_delta", "text": WORD}
    delta = {"type": "content_block_delta", "index": 0, "delta": text}
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    usage = {"output_tokens": count}
    events = [
        {"type": "message_start", "message": _describe_message([], None)},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *[delta] * count,
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": usage},
        {"type": "message_stop"},
    ]
    return [_line(event, str(event["type"])) for event in events]


def _describe_message(content: list[Any], reason: str | None) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    }


def compose_responses(count: int) -> list[bytes]:
    """Composes a stream of Responses."""
    text = WORD * count
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
    done = {**item, "status": "completed", "content": [{**part, "text": text}]}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": _describe_response([], "in_progress")},
        {"type": "response.in_progress", "response": _describe_response([], "in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": part},
        *[
            {"type": "response.output_text.delta", **place, "delta": WORD, "logprobs": []}
            for _ in range(count)
        ],
        {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **place, "part": {**part, "text": text}},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": _describe_response([done], "completed")},
    ]
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return [_line(event, str(event["type"])) for event in events]


def _describe_response(output: list[Any], status: str) -> dict[str, Any]:
    usage = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 10,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": status,
        "model": "m",
        "output": output,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": usage if status == "completed" else None,
    }


def compose_answer(protocol: str) -> bytes:
    """Composes a small answer that is not streamed."""
    if protocol == "messages":
        return json.dumps(_describe_message([{"type": "text", "text": "Hi"}], "end_turn")).encode()
    if protocol == "responses":
        part = {"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
        return json.dumps(_describe_response([{**item, "content": [part]}], "completed")).encode()
    return _compose_whole_chat({"content": "Hi"}, "stop")


CALL_ID = b"call_00000000"
"""Stands in a composed call for the id that each one gets."""


def compose_call(protocol: str) -> bytes:
    """Composes an answer that only calls the tool ``look``."""
    called, arguments = CALL_ID.decode(), '{"at":"rain"}'
    if protocol == "messages":
        block = {"type": "tool_use", "id": called, "name": "look", "input": {"at": "rain"}}
        return json.dumps(_describe_message([block], "tool_use")).encode()
    if protocol == "responses":
        item = {"id": called.replace("call", "fc"), "type": "function_call", "status": "completed"}
        item |= {"call_id": called, "name": "look", "arguments": arguments}
        return json.dumps(_describe_response([item], "completed")).encode()
    function = {"name": "look", "arguments": arguments}
    call = {"id": called, "type": "function", "function": function}
    return _compose_whole_chat({"content": None, "tool_calls": [call]}, "tool_calls")


def _compose_whole_chat(said: dict[str, Any], reason: str) -> bytes:
    message = {"role": "assistant", "refusal": None, **said}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    common = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m"}
    return json.dumps({**common, "choices": [choice], "usage": usage}).encode()


def compose_further(protocol: str) -> bytes:
    """Composes a small answer in one of the further protocols."""
    origin = {"provider": "p", "model": "m", "stop_reason": "answered"}
    said = {"type": "text", "text": "Hi"}
    canister = {"role": "assistant", "id": "a", "turn_id": "t", "origin": origin, "content": [said]}
    content = {"role": "model", "parts": [{"text": "Hi"}]}
    answers: dict[str, dict[str, Any]] = {
        "show": {"capabilities": ["completion", "tools"], "model_info": {}},
        "gemini": {
            "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 1},
            "modelVersion": "m",
            "responseId": "r",
        },
        "ollama": {
            "model": "m",
            "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": "Hi"},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 9,
            "eval_count": 1,
        },
        "models": {"version": 1, "models": []},
        "converse": {
            "version": 1,
            "canisters": [{**canister, "timestamp": "2026-01-01T00:00:00Z"}],
            "metadata": {"origin": origin},
            "losses": [],
        },
    }
    return json.dumps(answers[protocol]).encode()


_COMPOSERS = {
    "chat": compose_chat,
    "responses": compose_responses,
    "messages": compose_messages,
}
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def _frame(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


def _answer(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


class _Canned:
    """All that is ever sent, by protocol."""

    def __init__(self, count: int) -> None:
        self.streams = {
            name: [_frame(event) for event in compose(count)]
            for name, compose in _COMPOSERS.items()
        }
        self.bursts = {
            name: _HEAD + b"".join(frames) + b"0\r\n\r\n" for name, frames in self.streams.items()
        }
        self.shorts = {
            name: _HEAD + b"".join(map(_frame, compose(SHORT_CHUNKS))) + b"0\r\n\r\n"
            for name, compose in _COMPOSERS.items()
        }
        silent = compose_chat(SHORT_CHUNKS, has_usage=False)
        self.silents = {"chat": _HEAD + b"".join(map(_frame, silent)) + b"0\r\n\r\n"}
        self.slow = {
            name: [_frame(event) for event in compose(SLOW_CHUNKS)]
            for name, compose in _COMPOSERS.items()
        }
        self.answers = {name: _answer(compose_answer(name)) for name in _COMPOSERS}
        self._called_chat = _HEAD + b"".join(map(_frame, compose_called_chat())) + b"0\r\n\r\n"
        self._calls = {name: _answer(compose_call(name)) for name in _COMPOSERS}
        self.further = [
            (path, _answer(compose_further(name))) for name, path in FURTHER_PATHS.items()
        ]
        self._called = 0
        self.gate = asyncio.Event()

    def call(self, protocol: str, *, streamed: bool = False) -> bytes:
        """Return an answer that calls the tool, with a new id."""
        self._called += 1
        number = b"_%08d" % self._called
        answer = self._called_chat if streamed else self._calls[protocol]
        return answer.replace(CALL_ID[-9:], number)


async def _serve_connection(
    canned: _Canned, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with suppress(ConnectionError, asyncio.IncompleteReadError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            start = lower.find(b"\r\ncontent-length:")
            size = int(lower[start + 17 : lower.index(b"\r\n", start + 2)]) if start >= 0 else 0
            body = await reader.readexactly(size)
            path = head.split(b" ", 2)[1].decode()
            if path.startswith("/gate"):
                canned.gate.set() if path == "/gate/open" else canned.gate.clear()
                writer.write(_answer(b"{}"))
                continue
            further = next((answer for tail, answer in canned.further if tail in path), None)
            if further is not None:
                writer.write(further)
                continue
            protocol = next(name for name, tail in PATHS.items() if tail in path)
            if b'"stream":true' not in body.replace(b" ", b""):
                if path.startswith("/late"):
                    await asyncio.sleep(LATE_SECONDS)
                is_acting = path.startswith("/acting")
                writer.write(canned.call(protocol) if is_acting else canned.answers[protocol])
            elif path.startswith("/calls") and b'"role":"tool"' not in body.replace(b" ", b""):
                writer.write(canned.call(protocol, streamed=True))
            elif path.startswith(("/at-once", "/short", "/silent", "/calls")):
                bursts = canned.bursts if path.startswith("/at-once") else canned.shorts
                bursts = canned.silents if path.startswith("/silent") else bursts
                writer.write(bursts[protocol])
                await writer.drain()
            else:
                if path.startswith("/held"):
                    await canned.gate.wait()
                is_slow = path.startswith(("/slow", "/held"))
                await _send_paced(canned, protocol, writer, is_slow=is_slow)
    writer.close()


async def _send_paced(
    canned: _Canned, protocol: str, writer: asyncio.StreamWriter, *, is_slow: bool
) -> None:
    """Sends one chunk a write, so that the client wakes for each of them."""
    writer.write(_HEAD)
    for frame in (canned.slow if is_slow else canned.streams)[protocol]:
        writer.write(frame)
        await asyncio.sleep(SLOW_SECONDS if is_slow else 0)  # one write each, never two in one
    writer.write(b"0\r\n\r\n")


def _give_way() -> None:
    """Lets this process run where the client does not, and never in its place.

    Each request that comes while it sleeps would otherwise wake it on the client's processor, in
    the middle of a call; what it drives out of the caches there would count as the client's, and
    the more, the longer the client works between two requests.
    """
    if hasattr(os, "SCHED_BATCH"):  # Linux
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


async def _main() -> None:
    canned = _Canned(CHUNKS)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve_connection(canned, reader, writer)

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


@contextmanager
def run_server() -> Iterator[str]:
    """Runs the server in a process of its own; gives its address, without a path."""
    process = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


if __name__ == "__main__":
    _give_way()
    asyncio.run(_main())
