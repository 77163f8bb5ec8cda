"""A passed exchange is closed, unless it was read to its end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from vibe_llms.daemons.gateway.faces.chat_completions import FACE
from vibe_llms.daemons.gateway.passthrough import pass_through
from vibe_llms.daemons.records import CallRecord
from vibe_llms.daemons.server.asgi_types import ClientGone
from vibe_llms.providers.remote_models import RemoteModel


class PlayedExchange:
    """An answer of the upstream."""

    status = 200

    def __init__(self, *, is_spent: bool) -> None:
        self.headers = {"content-type": "application/json"}
        self.is_spent = is_spent
        self.closed = 0

    async def read(self) -> bytes:
        return b'{"usage":{"prompt_tokens":4,"completion_tokens":2}}'

    async def close(self) -> None:
        self.closed += 1


def compose_call(exchange: PlayedExchange, *, is_gone: bool) -> Any:
    async def send(*given: object) -> PlayedExchange:
        return exchange

    async def answer(status: int, body: bytes, headers: object) -> None:
        if is_gone:
            raise ClientGone

    model: Any = object.__new__(RemoteModel)
    model.client = SimpleNamespace(pass_through=send)
    return SimpleNamespace(
        upstream=SimpleNamespace(model=model, name="m"),
        request=SimpleNamespace(
            body=b"{}",
            model="m",
            rename=None,
            find_path=lambda model: "/x",
            streaming=False,
            method="POST",
        ),
        record=CallRecord(request_id="r", method="POST", path="/", started=0.0),
        reservation=None,
        face=FACE,
        http=SimpleNamespace(
            notes={}, scope={"query_string": b""}, headers={}, request_id="r", answer=answer
        ),
    )


@pytest.mark.parametrize("is_spent", [True, False])
async def test_an_exchange_is_closed_unless_it_is_spent(is_spent: bool) -> None:
    exchange = PlayedExchange(is_spent=is_spent)
    call = compose_call(exchange, is_gone=False)

    await pass_through(call)

    assert exchange.closed == (not is_spent)
    assert (call.record.usage.input_tokens, call.record.usage.output_tokens) == (4, 2)


async def test_an_exchange_is_closed_after_the_client_has_left() -> None:
    exchange = PlayedExchange(is_spent=False)

    with pytest.raises(ClientGone):
        await pass_through(compose_call(exchange, is_gone=True))

    assert exchange.closed == 1
