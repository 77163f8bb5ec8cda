"""An idle connection uses little memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vibe_llms.daemons.server.connection import IncomingConnection
from vibe_llms.daemons.server.requests import RequestReader
from vibe_llms.daemons.server.settings import ServerSettings

REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"


@pytest.mark.parametrize(("seconds", "is_remembered"), [(5.0, True), (11.0, False)])
def test_an_idle_connection_forgets_its_last_head(seconds: float, is_remembered: bool) -> None:
    service: Any = SimpleNamespace(
        loop=SimpleNamespace(time=lambda: 0.0), settings=ServerSettings()
    )
    connection = IncomingConnection(service, socket_of_nobody())
    received: list[bytes] = []
    sink: Any = SimpleNamespace(
        receive=lambda head, body: received.append(body),
        begin=lambda head: None,
        add_body=lambda body: None,
        finish=lambda: None,
    )
    reader = connection._reader = RequestReader(sink, 10_000)
    reader.feed(REQUEST)

    connection.check_timeouts(seconds)
    reader.feed(REQUEST)

    assert received == ([b"ab"] if is_remembered else [])


def socket_of_nobody() -> Any:
    return SimpleNamespace()
