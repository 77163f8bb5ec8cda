"""A request reads the same from its bytes and from its JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from vibe_llms.daemons.bodies import decode_if_valid
from vibe_llms.daemons.gateway.client_requests import read_client_request
from vibe_llms.daemons.gateway.faces import chat_completions, ollama
from vibe_llms.exceptions import ConverseError

TALK = [{"role": "user", "content": "Hi"}]
FACES = [chat_completions.FACE, ollama.FACE]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "messages": TALK},
        {"messages": TALK, "stream": True},
        {"model": "m", "messages": TALK, "stream": False},
        {"model": "m", "stream": None},
        {"model": "m", "messages": []},
        {"model": 1, "messages": TALK},
        {"model": None},
        {"model": "m", "stream": "yes"},
        {"model": "m", "stream": 1},
    ],
)
def test_a_decoded_body_reads_like_its_bytes(face: Any, body: dict[str, Any]) -> None:
    data = msgspec.json.encode(body)

    def read(native: dict[str, Any] | None) -> object:
        try:
            request = read_client_request(face, data, native)
        except ConverseError as error:
            return str(error)
        return request.body, request.model, request.streaming

    assert read(decode_if_valid(data)) == read(None)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"model":"\xff"}', b'{"a":"\\ud800"}'])
def test_an_invalid_body_is_not_decoded(data: bytes) -> None:
    assert decode_if_valid(data) is None
