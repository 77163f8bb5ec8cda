"""Why a request is refused is known wherever the server was started."""

from __future__ import annotations

from typing import Any, cast

from vibe_llms.daemons.server.requests import NOT_IMPLEMENTED, RequestReader


def test_a_refusal_keeps_its_status_within_an_exception_handler() -> None:
    """As where a program starts its server while it handles an error."""
    reader = RequestReader(cast("Any", None), 10_000)
    try:
        raise KeyError
    except KeyError:
        status = reader.feed(b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n")

    assert status == NOT_IMPLEMENTED
