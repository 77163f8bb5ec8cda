"""Random invalid requests to a gateway: bodies, paths, headers, WebSocket messages.

Each is drawn from a ``random.Random``, so that Hypothesis can shrink it, and a long run can be
repeated by its seed (``tests/support/gateways/gateway_chaos.py``).
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import attrs
from yarl import URL

from support.gateways.gateway_samples import (
    BODIES,
    CARRIED,
    ITEM,
    KEPT_BODIES,
    MODEL,
    RESPONSE,
    RICH_BODIES,
)
from support.gateways.hostile_upstreams import SECRET, Process

LONGEST_SECONDS: Final = 70.0
_PATHS: Final = (
    "/v1/responses/{response}", "/v1/responses/{background}",
    "/v1/responses/{response}/input_items",
    "/v1/responses/{response}/cancel", "/v1/conversations/{conversation}", "/v1/models",
    "/v1/conversations/{conversation}/items", "/v1/conversations/{conversation}/items/{item}",
    "/v1/responses/{conversation}", "/v1/models/{model}", "/v1beta/models", "/api/tags",
    "/v1beta/models/{model}", "/openapi.json", "/healthz", "/readyz", "/metrics", "/v1/nothing",
    "/v1/responses/", "/v1/embeddings", "/v1beta/models/{model}:countTokens",
    "/v1beta/models/{model}:nothing", "/v1beta/models/:generateContent", "/v1/messages/batches",
)  # fmt: skip
_ODD_PARTS: Final = (
    "..", ".", "%00", "%2e%2e%2f", "%ff%fe", "x" * 3_000, "a b", "ä", "%", "%zz", "{id}", "'", '"',
    "conv_", "resp_", "resp_" + "0" * 48, "\U0001f642", "%F0%9F%99%82", "-1", "null", "*", "?", "#",
    ":", "anthropic:", ":m", "a:b:c", "\\", "%5c", "%0d%0a", "ollama:%0d%0aX", "$(x)", "1;--",
)  # fmt: skip
_QUERIES: Final = (
    "stream", "starting_after", "order", "limit", "after", "before", "include", "include[]", "alt",
    "key", "api-version", "beta", "pageSize", "pageToken", "store",
)  # fmt: skip
_QUERY_VALUES: Final = (
    "", "true", "TRUE", "false", "sse", "json", "-1", "0", "1", "--1", "-", "²", "\u0661", "1e9",
    "9" * 30, "9" * 5_000, "asc", "desc", "x", "%00", "%ff", "%", "msg_1", "{item}", "&&==&", "+",
)  # fmt: skip
_HEADERS: Final = {
    "traceparent": ("", "00-0-0-0", "00-" + "0" * 32 + "-" + "0" * 16 + "-00", "ff" * 40,
                    "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "\xff", "00-" + "A" * 32 + "-b-zz"),
    "tracestate": ("", "a=b", "=" * 600, "a=b," * 40, "\xe4=\xff"),
    "x-vibe-strict": ("true", "TRUE", "1", "", "perhaps", "\xff"),
    "accept-encoding": ("br", "gzip;q=abc", "*;q=0", "identity;q=0", "zstd, , ,", ""),
    "content-encoding": ("gzip", "br", "deflate", "nothing", "identity", "gzip, gzip"),
    "content-type": ("", "text/plain", "application/json; charset=utf-16", "multipart/form-data",
                     "application/json; charset=\xff", "application/x-www-form-urlencoded",
                     "application/json;;;=", "json"),
    "accept": ("text/html", "text/event-stream", "*", ""),
    "expect": ("100-continue", "nothing"),
    "anthropic-version": ("", "1999-01-01", "\xff"),
    "anthropic-beta": ("x" * 2_000, ",,,", "\xe4"),
    "openai-beta": ("x", "\xff"),
    "x-goog-api-client": ("\xff", "x"),
    "idempotency-key": ("", "x" * 5_000, "\xff"),
    "x-request-id": ("\xff", "'", "x" * 5_000),
    "range": ("bytes=0-1", "x"),
    "if-none-match": ("*", "x"),
    "cookie": ("a=b; c", "="),
    "host": ("", "x y", "[::1", "evil.example"),
    "upgrade": ("h2c", "websocket"),
    "sec-websocket-key": ("", "x"),
    "origin": ("null", "http://evil.example"),
    "authorization": ("Bearer", "Bearer ", "Basic x", "Bearer vk-" + "x" * 47, "bearer \xff", "x"),
    "x-api-key": ("", "\xff", "vk-"),
    "x-stainless-retry-count": ("x", "9" * 30),
    "x-forwarded-for": ("127.0.0.1", "\xff"),
}  # fmt: skip

_ODD: Final[Sequence[Any]] = (
    None, True, False, -1, 0, 1, 0.5, 2**63, 2**70, 1e308, "", "\0", "x" * 5_000, "\ud800", [], {},
    [[]], [None], [{}], {"": 0}, {"type": "nothing"}, {"type": None}, {"type": "text"}, {"role": 7},
    "data:image/png;base64,!", "../../etc/passwd", "auto", "none", "text", "user", "assistant",
    "tool", "function", "system", "json_schema", "image", "http://127.0.0.1:1/", "{response}",
    "{conversation}", "{background}", MODEL, CARRIED, "anthropic:", ":", "conversation", "disabled",
)  # fmt: skip

_FRAMES: Final = (
    b"", b"\x81\xfe", b"\x88\x80", b"\x8f\x80abcd", b"\xc1\x85", b"\x01\x80", b"\x81" + b"\xff" * 9,
)  # fmt: skip


@attrs.frozen
class DrawnRequest:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def survey_places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values within a body."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, each in inner:
        found.append((*path, key))
        if isinstance(each, dict | list):
            found += survey_places(each, (*path, key))
    return found


def distort(dice: random.Random, valid: Any) -> Any:
    """Return a body in which up to three values are replaced, removed or repeated."""
    body = copy.deepcopy(valid)
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        places = survey_places(body)
        if not places:
            break
        *outer, last = dice.choice(places)
        within = body
        for key in outer:
            within = within[key]
        action = dice.randrange(8)
        if action == 0:
            del within[last]
        elif action == 1 and isinstance(within, list):
            within.append(copy.deepcopy(within[last]))
        elif action == 2:
            within[last] = [copy.deepcopy(within[last])]
        else:
            within[last] = copy.deepcopy(dice.choice(_ODD))
    return body


def garble(dice: random.Random, data: bytes) -> bytes:
    """Return data in which a few bytes at one place are replaced, removed or added."""
    at = dice.randint(0, len(data))
    odd = bytes(dice.randrange(256) for _ in range(dice.randint(0, 4)))
    return data[:at] + odd + data[at + dice.randint(0, 9) :]


def draw_body(dice: random.Random, bodies: Sequence[tuple[str, Any]] = BODIES) -> tuple[str, bytes]:
    """Draw a path, and a body for it that may be invalid."""
    path, valid = dice.choice(bodies)
    data = json.dumps(distort(dice, valid)).encode()
    return path, garble(dice, data) if dice.random() < 0.2 else data


_ALL_BODIES: Final = (*BODIES, *KEPT_BODIES, *RICH_BODIES, *RICH_BODIES)


def draw_request(dice: random.Random) -> DrawnRequest:
    """Draw a request whose path, query, headers and body may all be invalid."""
    method = "POST"
    if dice.random() < 0.7:
        path, body = draw_body(dice, _ALL_BODIES)
    else:
        path, body = dice.choice(_PATHS), b""
        method = dice.choice(("GET", "GET", "GET", "POST", "DELETE", "HEAD", "PUT", "OPTIONS", "X"))
        if dice.random() < 0.3:
            _, body = draw_body(dice, KEPT_BODIES)
        if dice.random() < 0.3:
            parts = path.split("/")
            parts[dice.randrange(1, len(parts))] = dice.choice(_ODD_PARTS)
            path = "/".join(parts)
    if dice.random() < 0.3:
        given = (
            f"{dice.choice(_QUERIES)}={dice.choice(_QUERY_VALUES)}"
            for _ in range(dice.randint(1, 3))
        )
        path += "?" + "&".join(given)
    headers = {"content-type": "application/json"}
    if dice.random() < 0.4:
        headers |= draw_headers(dice)
        if headers.get("content-encoding") == "gzip" and dice.random() < 0.5:
            body = gzip.compress(body)
    return DrawnRequest(method, path, headers, body)


def draw_headers(dice: random.Random) -> dict[str, str]:
    """Draw a few invalid headers."""
    names = (dice.choice(list(_HEADERS)) for _ in range(dice.randint(1, 3)))
    return {name: dice.choice(_HEADERS[name]) for name in names}


def draw_messages(dice: random.Random) -> list[str | bytes]:
    """Draw messages for a WebSocket."""
    drawn: list[str | bytes] = []
    for _ in range(dice.randint(1, 5)):
        kinds = ("response.create", "response.create", "response.steer", "nothing", None, 7, [])
        _, valid = dice.choice([each for each in _ALL_BODIES if each[0] == "/v1/responses"])
        event = {"type": dice.choice(kinds), **distort(dice, valid)}
        if dice.random() < 0.3:
            event["stream_id"] = dice.choice(("a", "b", "", 7, None, [], "x" * 999, "\0", "\ud800"))
        if dice.random() < 0.3:
            event["generate"] = dice.choice((True, False, None, "x"))
        data: str | bytes = json.dumps(event)
        assert isinstance(data, str)
        if dice.random() < 0.2:
            data = garble(dice, data.encode())
        drawn.append(data)
    return drawn


def draw_frames(dice: random.Random) -> bytes:
    """Draw bytes that are not valid WebSocket frames."""
    return dice.choice(_FRAMES) + dice.randbytes(dice.randint(0, 200))


@attrs.define
class Client:
    """Client that sends invalid requests to a gateway, and checks the answers.

    Attributes:
        known: Ids of stored objects, for the names in braces of drawn requests.
        statuses: Number of answers by status.
    """

    process: Process
    session: aiohttp.ClientSession
    known: dict[str, str] = attrs.field(factory=dict)
    statuses: dict[int, int] = attrs.field(factory=dict)

    async def prepare(self) -> None:
        """Create a conversation and two responses that later requests can name."""
        self.known = {"model": MODEL, "item": "msg_1"}
        for name, path, body in (
            ("conversation", "/v1/conversations", {"items": [ITEM]}),
            ("response", "/v1/responses", RESPONSE),
            ("background", "/v1/responses", {**RESPONSE, "background": True}),
        ):
            headers = {"content-type": "application/json"}
            request = DrawnRequest("POST", path, headers, json.dumps(body).encode())
            status, answer = await self._exchange(request)
            assert status == 200, answer
            self.known[name] = json.loads(answer.partition(b"\r\n\r\n")[2])["id"]

    def fill(self, text: str) -> str:
        """Replace names in braces by the ids of stored objects."""
        for name, known in self.known.items():
            text = text.replace(f"{{{name}}}", known)
        return text

    async def send(self, request: DrawnRequest) -> int:
        """Send one request; return the status. Raise AssertionError for a wrong answer."""
        status, answer = await self._exchange(request)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        check(self.process, status, answer)
        return status

    async def _exchange(self, request: DrawnRequest) -> tuple[int, bytes]:
        """Send a request over a plain socket, because client libraries reject invalid ones."""
        body = self.fill(request.body.decode("latin-1")).encode("latin-1")
        path = quote(self.fill(request.path), safe="/:?&=%[]+#*;,$!~'()")
        headers = {
            "host": "gateway",
            **{"authorization": f"Bearer {self.process.key}"},
            **request.headers,
            "content-length": str(len(body)),
            "connection": "close",
        }
        lines = [f"{request.method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        url = URL(self.process.url)
        assert url.host is not None
        async with asyncio.timeout(LONGEST_SECONDS):
            reader, writer = await asyncio.open_connection(url.host, url.port, limit=2**24)
            try:
                writer.write(head + body)
                return await _read_answer(reader)
            finally:
                await _close(writer)

    async def converse(self, messages: Sequence[str | bytes]) -> None:
        """Send messages over a WebSocket. Raise AssertionError for a wrong answer."""
        url = f"{self.process.url}/v1/responses"
        async with (
            asyncio.timeout(LONGEST_SECONDS),
            self.session.ws_connect(url, headers=self.process.headers) as socket,
        ):
            for message in messages:
                if isinstance(message, bytes):
                    await socket.send_bytes(message)
                else:
                    await socket.send_str(self.fill(message))
            # The answer to this last message shows that all were received.
            await socket.send_str('{"type": "response.steer", "input": "last"}')
            async for answer in socket:
                if answer.type is not aiohttp.WSMsgType.TEXT:
                    break
                fields = json.loads(answer.data)
                check(self.process, int(fields.get("status") or 0), answer.data.encode())
                if fields.get("steer", {}).get("input") == "last":
                    return
        code = socket.close_code
        assert code not in (None, 1006, 1011), f"web socket closed with {code}"

    async def break_socket(self, frames: bytes) -> None:
        """Send invalid frames over a WebSocket."""
        port = int(self.process.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            "GET /v1/responses HTTP/1.1\r\nHost: h\r\n"
            "Connection: Upgrade\r\nUpgrade: websocket\r\n"
            f"Authorization: Bearer {self.process.key}\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        writer.write(frames)
        with suppress(OSError):
            writer.write_eof()
            async with asyncio.timeout(LONGEST_SECONDS):
                check(self.process, 0, (await reader.read()).partition(b"\r\n\r\n")[2])
        await _close(writer)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the status and the rest of the answer; 0 if there is no answer."""
    data = b""
    with suppress(ConnectionError):
        while piece := await reader.read(65_536):
            data += piece
    while data.startswith(b"HTTP/1.1 1"):
        data = data.partition(b"\r\n\r\n")[2]
    return (int(data.split(b" ", 2)[1]), data.partition(b"\r\n")[2]) if data else (0, b"")


def check(process: Process, status: int, body: bytes) -> None:
    """Check the status, and that the answer contains no internal data."""
    assert status < 500 or status in (501, 505), (status, body)
    internal = ("Traceback", ".py", SECRET, process.upstream.url, str(process.folder), "vibe_llms.")
    for word in internal:
        assert word.encode() not in body, (word, body)
