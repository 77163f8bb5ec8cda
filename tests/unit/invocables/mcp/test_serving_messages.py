"""What is no message is complained of in words of ours, with its id where that can be told."""

from __future__ import annotations

import json

import mcp_types as types
import pytest

from vibe_llms.invocables.mcp.serving.messages import MalformedMessage, read_message


@pytest.mark.parametrize(
    ("text", "code", "number"),
    [
        (b"", -32700, None),
        (b"{", -32700, None),
        (b"[" * 100_000, -32700, None),
        (b"[]", -32600, None),
        (b"3", -32600, None),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600, 7),
        (b'{"jsonrpc": "1.0", "id": "a"}', -32600, "a"),
        (b'{"jsonrpc": "1.0", "id": true}', -32600, None),
        (b'{"jsonrpc": "1.0", "id": "\\ud800"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600, None),
    ],
)
def test_what_is_no_message(text: bytes, code: int, number: object) -> None:
    """What is told can be read, and tells of no class."""
    with pytest.raises(MalformedMessage) as raised:
        read_message(text)
    said = json.loads(raised.value.write())
    assert (said["error"]["code"], said["id"]) == (code, number)
    assert "validation" not in said["error"]["message"]


def test_messages_are_read() -> None:
    """Of every kind."""
    assert isinstance(
        read_message(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'), types.JSONRPCRequest
    )
    told = read_message(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')
    assert isinstance(told, types.JSONRPCNotification)
    assert isinstance(
        read_message(b'{"jsonrpc": "2.0", "id": 1, "result": {}}'), types.JSONRPCResponse
    )
