"""Faulty upstreams, and a gateway process that uses them.

The name of the model in a request selects the fault, so that one process has all faults.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

from support.gateways.gateways import BASES
from support.gateways.key_holders import create_key
from support.network.wire_servers import Connection, Server, serve

SECRET: Final = "sk-upstream-of-the-gateway"
TAG: Final = "+"
"""Begins the part of a model's name that makes it unique."""
USAGE: Final = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
_START: Final = {
    "type": "message_start",
    "message": {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": {"input_tokens": 7, "output_tokens": 1},
    },
}
_WORD: Final = {"type": "content_block_delta", "index": 0}
_MESSAGE: Final = (
    _START,
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {**_WORD, "delta": {"type": "text_delta", "text": "word"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 5},
    },
    {"type": "message_stop"},
)
_CHUNK: Final = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_CHAT: Final = (
    {**_CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "word"}}]},
    {**_CHUNK, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {**_CHUNK, "choices": [], "usage": USAGE},
)
CHUNKS: Final = [f"data: {json.dumps(each)}\n\n".encode() for each in _CHAT]
"""The events of a correct answer of Chat Completions."""
MESSAGE_FRAMES: Final = [
    f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in _MESSAGE
]
"""The events of a correct answer of Messages."""
_WHOLE_CHAT: Final = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "word"},
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}
_WHOLE_MESSAGE: Final = {
    **_START["message"],  # type: ignore[dict-item]
    "content": [{"type": "text", "text": "word"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 7, "output_tokens": 5},
}
_JSON: Final = "Content-Type: application/json\r\n"


@attrs.frozen
class FaultRequest:
    """A request to an upstream: the fault, and the form of the answer."""

    fault: str
    is_message: bool
    is_streamed: bool

    @property
    def frames(self) -> list[bytes]:
        """The events of a correct answer."""
        return MESSAGE_FRAMES if self.is_message else [*CHUNKS, b"data: [DONE]\n\n"]

    @property
    def body(self) -> bytes:
        """A correct answer that is not streamed."""
        return json.dumps(_WHOLE_MESSAGE if self.is_message else _WHOLE_CHAT).encode()


Fault = Callable[[Connection, FaultRequest], Awaitable[None]]


async def answer_well(connection: Connection, wanted: FaultRequest) -> None:
    """Send a correct answer."""
    if not wanted.is_streamed:
        await connection.answer(wanted.body, headers=_JSON)
        return
    await connection.begin()
    for frame in wanted.frames:
        await connection.send_chunk(frame)
    await connection.send_chunk(b"")


async def answer_slowly(connection: Connection, wanted: FaultRequest) -> None:
    """Send a correct answer after a delay."""
    await asyncio.sleep(0.02)
    await answer_well(connection, wanted)


def cut(connection: Connection) -> None:
    """Abort a connection, as if the program died."""
    connection.writer.transport.abort()


async def cut_before_head(connection: Connection, _: FaultRequest) -> None:
    cut(connection)


async def cut_within_head(connection: Connection, _: FaultRequest) -> None:
    await connection.write(b"HTTP/1.1 200 OK\r\nContent-Ty")
    connection.writer.close()


async def cut_within_chunk(connection: Connection, wanted: FaultRequest) -> None:
    await connection.begin()
    await connection.send_chunk(wanted.frames[0])
    await connection.write(b"ff\r\n" + wanted.frames[1][:9])
    connection.writer.close()


async def cut_before_end(connection: Connection, wanted: FaultRequest) -> None:
    await connection.begin()
    await connection.send_chunk(wanted.frames[0])
    connection.writer.close()


async def stall_before_head(connection: Connection, _: FaultRequest) -> None:
    await connection.wait_closed()


async def stall_between_chunks(connection: Connection, wanted: FaultRequest) -> None:
    await connection.begin()
    await connection.send_chunk(wanted.frames[0])
    await connection.wait_closed()


async def say_too_much_follows(connection: Connection, wanted: FaultRequest) -> None:
    """Send a body that is shorter than its ``Content-Length``."""
    await connection.answer(wanted.body, headers=_JSON, length=len(wanted.body) + 50)
    connection.writer.close()


async def say_too_little_follows(connection: Connection, wanted: FaultRequest) -> None:
    """Send a body that is longer than its ``Content-Length``."""
    await connection.answer(wanted.body, headers=_JSON, length=len(wanted.body) - 50)
    await connection.wait_closed()


async def flood_one_event(connection: Connection, _: FaultRequest) -> None:
    await connection.begin()
    await connection.send_chunk(b"data: ")
    while True:
        await connection.send_chunk(b"x" * 65_536)


async def flood_events(connection: Connection, wanted: FaultRequest) -> None:
    await connection.begin()
    while True:
        await connection.send_chunk(wanted.frames[0] + b": still there\n\n" * 2_000)


async def flood_whole(connection: Connection, _: FaultRequest) -> None:
    await connection.begin(_JSON)
    while True:
        await connection.send_chunk(b" " * 65_536)


async def flood_headers(connection: Connection, _: FaultRequest) -> None:
    await connection.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        await connection.write(b"X-More: and more\r\n" * 100)


async def refuse(connection: Connection, _: FaultRequest) -> None:
    error = b'{"type":"error","error":{"type":"rate_limit_error","message":"Later."}}'
    head = _JSON + "Retry-After: 1\r\n"
    await connection.answer(error, status="429 Too Many Requests", headers=head)


async def talk_garbage(connection: Connection, _: FaultRequest) -> None:
    await connection.begin()
    await connection.send_chunk(b"data: {\xff\xfe\n\ndata: [[[\n\n\0\0 nothing: at all\r\r\n\n")
    await connection.send_chunk(b"")


async def write_garbage(connection: Connection, _: FaultRequest) -> None:
    await connection.answer(b'{"choices": [{{{\xff', headers=_JSON)


async def send_a_page(connection: Connection, _: FaultRequest) -> None:
    head = "Content-Type: text/html\r\n"
    await connection.answer(b"<html>Please log in.</html>", headers=head)


FAULTS: Final[dict[str, Fault]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        answer_well, answer_slowly, cut_before_head, cut_within_head, cut_within_chunk,
        cut_before_end, stall_before_head, stall_between_chunks, say_too_much_follows,
        say_too_little_follows, flood_one_event, flood_events, flood_whole, flood_headers,
        refuse, talk_garbage, write_garbage, send_a_page,
    )
}  # fmt: skip
"""Faults by the names of models that select them."""


async def answer_with_faults(connection: Connection) -> None:
    """Answer each request with the fault that its model names."""
    while not connection.writer.is_closing():
        line, _, body = await connection.read_request()
        try:
            request = json.loads(body)
        except ValueError:
            await connection.answer(b"{}", status="400 Bad Request", headers=_JSON)
            continue
        if line.startswith("POST /v1/messages/count_tokens"):
            await connection.answer(b'{"input_tokens": 3}', headers=_JSON)
            continue
        wanted = FaultRequest(request["model"], "/messages" in line, bool(request.get("stream")))
        fault = wanted.fault.partition(TAG)[0]
        await FAULTS.get(fault, answer_well)(connection, wanted)


def is_last_request_for(connection: Connection, fault: str) -> bool:
    """Return whether a connection's last request is for a fault."""
    return bool(connection.requests) and json.loads(connection.requests[-1][2])["model"] == fault


def find_key_folder(home: Path) -> Path:
    """Return the folder of keys and their usage in a home directory."""
    return home / ".local/share/vibe-llms/authorizers/keys"


@attrs.define
class Process:
    """Gateway in a process of its own, with its home, keys and one upstream."""

    folder: Path
    upstream: Server
    key: str
    url: str
    running: asyncio.subprocess.Process
    printed: list[str] = attrs.field(factory=list)

    @property
    def keys(self) -> Path:
        """Folder of its keys and their usage."""
        return find_key_folder(self.folder)

    @property
    def headers(self) -> dict[str, str]:
        """Headers that authorize a client."""
        return {"authorization": f"Bearer {self.key}"}

    def count_upstream(self) -> int:
        """Return the number of requests to the upstream."""
        return sum(len(each.requests) for each in self.upstream.connections)

    def survey_upstream(self) -> list[str]:
        """Return the models of all requests to the upstream."""
        requests = (
            each for connection in self.upstream.connections for each in connection.requests
        )
        return [json.loads(body)["model"] for _, _, body in requests]

    async def end(self, *, kill: bool = False) -> None:
        """End the process, and wait for it."""
        if self.running.returncode is None:
            with suppress(ProcessLookupError):
                (self.running.kill if kill else self.running.terminate)()
        await asyncio.wait_for(self.running.wait(), 60)


_SETTINGS: Final = """\
connect_seconds = 20
first_byte_seconds = 20
between_chunks_seconds = 20
total_seconds = 40
"""
_HASTY: Final = {
    "hasty_": _SETTINGS.replace("first_byte_seconds = 20", "first_byte_seconds = 0.5"),
    "restless_": _SETTINGS.replace("between_chunks_seconds = 20", "between_chunks_seconds = 0.5"),
}
"""Settings of providers with short timeouts, by the prefix of their names.

The others have long timeouts, so that tests pass on a busy machine.
"""


def write_files(folder: Path, upstream: str) -> None:
    """Write the configuration: all providers have the same address, and timeouts.

    Providers whose names begin with ``patient`` have the default timeouts.
    """
    lines = ["[limits]", "event_bytes = 200000", "response_bytes = 1000000"]
    for name, base in BASES.items():
        key = "" if name == "ollama" else f'api_key = "{SECRET}"\n'
        address = f'base_url = "{upstream}{base}"'
        lines += [f"[providers.{name}]", address, key + _SETTINGS]
        module = f'module = "vibe_llms.providers.{name}"'
        lines += [f"[providers.patient_{name}]", module, address, key]
        for kind, settings in _HASTY.items():
            lines += [f"[providers.{kind}{name}]", module, address, key + settings]
    (folder / "vibe.toml").write_text("\n".join(lines), encoding="utf-8")
    (folder / "gateway.toml").write_text(
        'authorizer = "keys"\n[limits]\ntotal_seconds = 60\nrequest_bytes = 1000000\n'
        "[server]\nhead_seconds = 2\nbody_seconds = 2\ndrain_seconds = 2\n",
        encoding="utf-8",
    )


def find_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process with a home of its own and no other settings."""
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("XDG_", "VIBE_", "OPENAI_", "ANTHROPIC_"))
    }
    return {**kept, "HOME": str(folder), "VIBE_LLMS_CONFIG": str(folder / "vibe.toml")}


async def start(
    folder: Path,
    upstream: Server,
    *,
    key: str = "",
    workers: int = 1,
    port: int = 0,
    more: Sequence[str] = (),
) -> Process:
    """Start a gateway, and wait until it answers."""
    write_files(folder, upstream.url)
    command = [sys.executable, "-m", "vibe_llms", "serve", "gateway"]
    options = ["--config", "gateway.toml", "--port", str(port), "--workers", str(workers), *more]
    running = await asyncio.create_subprocess_exec(
        *command, *options, cwd=folder, env=find_environment(folder), stderr=PIPE, stdout=PIPE
    )
    assert running.stderr is not None
    async with asyncio.timeout(60):
        line = (await running.stderr.readline()).decode()
        assert line.startswith("Gateway on "), line + (await running.stderr.read()).decode()
    process = Process(folder, upstream, key, line.split(" ")[2], running)
    if not key:
        process.key = create_key(process.keys)
    return process


async def _listen(process: Process) -> None:
    """Read the output; otherwise the process would block when its pipe is full."""
    assert process.running.stderr is not None
    while line := await process.running.stderr.readline():
        process.printed.append(line.decode("utf-8", "replace"))


@asynccontextmanager
async def gateway_process(
    folder: Path,
    *,
    workers: int = 1,
    handler: Callable[[Connection], Awaitable[None]] = answer_with_faults,
    options: Sequence[str] = (),
) -> AsyncIterator[Process]:
    """Run a gateway in a process of its own, with a faulty upstream."""
    async with serve(handler) as upstream:
        process = await start(folder, upstream, workers=workers, more=options)
        listening = asyncio.create_task(_listen(process))
        try:
            yield process
        finally:
            await process.end(kill=True)
            await listening
