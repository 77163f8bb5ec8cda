"""An answer that is carried has none of our secrets, however it is cut, and is else as it was."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.wire.guarded import GuardedExchange
from vibe_llms.wire.scrubbing import Scrubber

KEY = "sk-proj-a/B+c9_d0e1f2=ghij"
FORMS: dict[str, Callable[[str], str]] = {
    "raw": lambda text: text,
    "json": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "escaped": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "twice": lambda text: json.dumps(json.dumps(text))[3:-3],
    "url": lambda text: quote(text, safe=""),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 inside": lambda text: base64.urlsafe_b64encode(f"me{text}".encode()).decode(),
    "hex": lambda text: text.encode().hex(),
}


class Pieces:
    """An exchange whose body comes in these pieces."""

    status = 200

    def __init__(self, pieces: Sequence[bytes], headers: dict[str, str] | None = None) -> None:
        self.headers = headers or {}
        self._pieces = [each for each in pieces if each]

    async def receive(self) -> bytes:
        return self._pieces.pop(0) if self._pieces else b""

    async def read(self, limit: int | None = None) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)

    async def close(self) -> None: ...


def cut(whole: bytes, places: Sequence[int]) -> list[bytes]:
    ends = [0, *sorted(each % (len(whole) + 1) for each in places), len(whole)]
    return [whole[a:b] for a, b in pairwise(ends)]


async def receive_all(pieces: Sequence[bytes], *secrets: str) -> list[bytes]:
    exchange = GuardedExchange(Pieces(pieces), Scrubber(secrets, shapes=False))  # type: ignore[arg-type]
    received = []
    while data := await exchange.receive():
        received.append(data)
    return received


@given(form=st.sampled_from(sorted(FORMS)), places=st.lists(st.integers(0, 500), max_size=12))
async def test_a_secret_is_struck_out_wherever_the_pieces_are_cut(
    form: str, places: list[int]
) -> None:
    written = FORMS[form](KEY)
    whole = f'data: {{"error": "You sent <{written}>, sk-proj."}}\n\n'.encode()
    received = await receive_all(cut(whole, places), "something else", KEY)
    said = b"".join(received)
    assert said.startswith(b'data: {"error": "You sent <')
    assert said.endswith(b'>, sk-proj."}\n\n')
    assert b"********" in said
    inner = said.removeprefix(b'data: {"error": "You sent <').partition(b">")[0]
    assert not any(written[at : at + 6].encode() in inner for at in range(3, len(written) - 6))


@given(
    data=st.text(st.sampled_from('sk-proja/B+c9_d0e1f2=ghijkl%\\u0 \n"{}'), max_size=60),
    places=st.lists(st.integers(0, 500), max_size=12),
)
async def test_all_else_passes_as_it_came(data: str, places: list[int]) -> None:
    """Also what begins as a secret does, and its beginning is held until it goes on."""
    whole = data.encode()
    assert b"".join(await receive_all(cut(whole, places), KEY)) == whole


@pytest.mark.parametrize(
    "piece", ['data: {"a": "sk-proj-a"}\n\n', "{}\n", "sk-proj-a/B+c9 \n", "event: ping\n\n"]
)
async def test_an_event_that_is_whole_is_not_held_back(piece: str) -> None:
    """Else each would come as late as the next one."""
    assert await receive_all([piece.encode()] * 3, KEY) == [piece.encode()] * 3


async def test_headers_and_whole_bodies_are_guarded_too() -> None:
    headers = {"www-authenticate": f"Bearer {KEY}", "x-echo": quote(KEY, safe=""), "x-other": "é"}
    pieces = Pieces([b"You sent ", KEY.encode(), b"!"], headers)
    exchange = GuardedExchange(pieces, Scrubber([KEY], shapes=False))  # type: ignore[arg-type]
    assert exchange.headers == {
        "www-authenticate": "Bearer ********",
        "x-echo": "********",
        "x-other": "é",
    }
    assert await exchange.read() == b"You sent ********!"


async def test_what_looks_like_a_key_of_others_is_no_secret_of_ours() -> None:
    """A model may say what keys look like."""
    text = b"Such as sk-proj-abcdefghijklmnopqrstuvwxyz, or Bearer abcdefghijklmnopqrst.\n"
    assert await receive_all([text], KEY) == [text]


async def test_a_run_of_backslashes_is_not_searched_from_each_of_its_places() -> None:
    """A client can have one sent back as long as it likes; a secret at its end is still found."""
    key = "".join(f"u{ord(each):04x}" if at == 0 else each for at, each in enumerate(KEY))
    [said] = await receive_all([b"\\" * 1_000 + key.encode() + b"\n"], KEY)
    assert said == b"\\" * (1_000 - 63) + b"********\n"
