"""Requests that are none, or that two could read in two ways."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network.serving import Client, Served, compose_request, echo, serving
from support.quality.properties import examples

CHUNKED = "Transfer-Encoding: chunked\r\n"
HOST = b"Host: h\r\n"
EVIL = b"GET /evil HTTP/1.1\r\nHost: h\r\n\r\n"

CASES = {
    "length and chunks": compose_request("POST", headers=CHUNKED + "Content-Length: 3\r\n")
    + b"0\r\n\r\n",
    "chunks and length": compose_request("POST", headers="Content-Length: 3\r\n" + CHUNKED)
    + b"0\r\n\r\n",
    "two lengths": compose_request("POST", headers="Content-Length: 3\r\nContent-Length: 4\r\n")
    + b"abcd",
    "one length twice": compose_request("POST", headers="Content-Length: 3\r\n" * 2) + b"abc",
    "a list of lengths": compose_request("POST", headers="Content-Length: 3, 3\r\n") + b"abc",
    "a length with a sign": compose_request("POST", headers="Content-Length: +3\r\n") + b"abc",
    "a length of no digits": compose_request("POST", headers="Content-Length: 0x3\r\n") + b"abc",
    "a space before the colon": compose_request("POST", headers="Content-Length : 3\r\n") + b"abc",
    "a coding twice": compose_request("POST", headers=CHUNKED * 2) + b"0\r\n\r\n",
    "an unknown coding": compose_request("POST", headers="Transfer-Encoding: xchunked\r\n")
    + b"0\r\n\r\n",
    "two codings": compose_request("POST", headers="Transfer-Encoding: gzip, chunked\r\n")
    + b"0\r\n\r\n",
    "a hidden coding": compose_request("POST", headers="Transfer-Encoding: \x0bchunked\r\n")
    + b"0\r\n\r\n",
    "chunks in HTTP/1.0": b"POST / HTTP/1.0\r\n" + CHUNKED.encode() + b"\r\n0\r\n\r\n",
    "a negative chunk": compose_request("POST", headers=CHUNKED) + b"-1\r\nx\r\n0\r\n\r\n",
    "an endless chunk": compose_request("POST", headers=CHUNKED)
    + b"fffffffffffffffff\r\nx\r\n0\r\n\r\n",
    "a chunk too long": compose_request("POST", headers=CHUNKED) + b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk with spaces": compose_request("POST", headers=CHUNKED) + b"3 \r\nabc\r\n0\r\n\r\n",
    "bare ends of lines": compose_request("POST", headers=CHUNKED) + b"3\nabc\n0\n\n",
    "a bare line feed": b"GET / HTTP/1.1\nHost: h\n\n",
    "a folded header": b"GET / HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n",
    "a NUL": b"GET / HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
    "an old version": b"GET /\r\n",
    "a new version": b"GET / HTTP/2.0\r\nHost: h\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a tunnel": b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: h\r\n\r\n",
    "a fragment": b"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n",
    "a space in the target": b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
    "TLS": bytes.fromhex("1603010200010001fc0303"),
}


async def send_all(client: Client, data: bytes) -> bytes:
    """Sends bytes and returns all that comes back; nothing may hang."""
    await client.write(data)
    return await asyncio.wait_for(client.read_all(), 15)


@pytest.mark.parametrize("case", CASES)
async def test_what_is_malformed_is_refused_and_what_follows_not_read(case: str) -> None:
    """One answer of 4xx or 5xx, and the connection is closed: the request behind is not served."""
    async with serving(echo) as served:
        answer = await send_all(await served.connect(), CASES[case] + EVIL)

    assert answer.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5"))
    assert answer.count(b"HTTP/1.1") == 1
    assert b"evil" not in answer


async def test_requests_before_a_malformed_one_are_answered() -> None:
    """In their order, and the refusal last."""
    async with serving(echo) as served:
        data = compose_request(path="/1") + compose_request(path="/2") + CASES["two lengths"]
        answer = await send_all(await served.connect(), data)

    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"200", b"400"]


async def test_another_protocol_is_not_taken_up() -> None:
    """Some clients offer HTTP/2 with each request; they are answered in HTTP/1.1."""
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAAA\r\n"
    async with serving(echo) as served:
        client = await served.connect()
        await client.write(
            compose_request("POST", headers=offer, body=b"hi") * 3 + compose_request(path="/last")
        )

        for _ in range(3):
            assert b'"body": "hi"' in (await client.read()).body
        assert b'"/last"' in (await client.read()).body


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("http://h/a?b", "/a"),
        ("http://h", "/"),
        ("*", "*"),
        ("//a", "//a"),
        ("/%E4%25", "/\ufffd%"),
    ],
)
async def test_targets_of_every_form_have_a_path(target: str, path: str) -> None:
    """Whole URLs, too, which proxies are sent."""
    async with serving(echo) as served:
        answer = await (await served.connect()).ask(compose_request("OPTIONS", target))

    assert answer.status == 200
    assert b'"path": "' + path.encode("unicode_escape") + b'"' in answer.body


REQUESTS = [
    compose_request(path="/a?b=c", headers="X-One: 1\r\nx-two: 2\r\n"),
    compose_request("POST", "/b", body=b"hello"),
    compose_request("POST", "/c", CHUNKED) + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n",
    compose_request("HEAD", "/d"),
    b"\r\n" + compose_request("PUT", "/e", body=b""),
    compose_request("POST", "/f", "Connection: Upgrade\r\nUpgrade: h2c\r\n", b"x"),
    compose_request("POST", "/g", body=bytes(range(256))),
    CASES["two lengths"],
    CASES["a negative chunk"],
]


async def _converse(requests: list[bytes], cuts: list[int]) -> bytes:
    """Sends requests in pieces; returns all that is answered, but for the date."""
    data = b"".join(requests) + compose_request(path="/last", headers="Connection: close\r\n")
    places = sorted({cut % len(data) for cut in cuts} | {0})
    async with serving(echo) as served:
        client = await served.connect()
        for begin, end in zip(places, [*places[1:], len(data)], strict=True):
            client.writer.write(data[begin:end])
            await asyncio.sleep(0.001)
        answer = await asyncio.wait_for(client.read_all(), 15)
    lines = answer.split(b"\r\n")
    return b"\r\n".join(line for line in lines if not line.startswith(b"date:"))


@given(
    st.lists(st.sampled_from(REQUESTS), max_size=6),
    st.lists(st.integers(0, 10_000), max_size=12),
)
@examples(60)
def test_how_requests_are_cut_changes_nothing(requests: list[bytes], cuts: list[int]) -> None:
    """The same answers, byte for byte, as when all is sent at once."""

    async def converse() -> tuple[bytes, bytes]:
        return await _converse(requests, []), await _converse(requests, cuts)

    whole, cut = asyncio.run(converse())
    assert cut == whole


async def _is_answered(served: Served) -> bool:
    """Asks once more, and again where this machine is slower than the server waits for a head."""
    for _ in range(20):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            return (await (await served.connect()).ask(compose_request())).status == 200
    return False


@given(st.randoms(use_true_random=False))
@examples(200)
def test_mutated_requests_neither_hang_nor_break_the_server(dice: random.Random) -> None:
    """Whatever comes is answered or closed within the bounds, and the next client is served."""
    data = bytearray(b"".join(dice.choices(REQUESTS, k=dice.randint(1, 4))))
    for _ in range(dice.randint(1, 8)):
        at = dice.randrange(len(data))
        match dice.randrange(4):
            case 0:
                data[at] = dice.randrange(256)
            case 1:
                del data[at : at + dice.randint(1, 20)]
            case 2:
                data[at:at] = dice.choice([b"\r\n", b"\n", b" ", b"\0", b"\xff", bytes(data[:40])])
            case _:
                data[at:at] = data[at : at + dice.randint(1, 60)]

    async def converse() -> None:
        async with serving(echo, head_seconds=0.1, body_seconds=0.1, idle_seconds=0.1) as served:
            client = await served.connect()
            answer = await send_all(client, bytes(data))
            for part in answer.split(b"HTTP/1.1 ")[1:]:
                assert part[:3] in (b"200", b"400", b"408", b"417", b"431", b"501", b"505")
            assert await _is_answered(served)

    asyncio.run(converse())
