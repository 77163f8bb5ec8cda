"""Credentials are obtained in a thread, once for all that wait; refused ones are renewed once."""

from __future__ import annotations

import asyncio
import threading

import attrs
import pytest

from support.vendors.remoting import Counterpart
from vibe_llms.exceptions import ProviderError, TransportError
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.cloud_credentials import AuthorizingTransport, ObtainedSecret, Renewal
from vibe_llms.wire.exchanges import Exchange, WireRequest
from vibe_llms.wire.memory import MemoryAnswer


class Source:
    """Numbers as credentials; small ones are stale."""

    def __init__(self) -> None:
        self.count = 0
        self.threads: set[int] = set()
        self.error: Exception | None = None
        self.gate = threading.Event()
        self.gate.set()

    def obtain(self, current: int | None) -> int:
        """Returns the next number."""
        self.threads.add(threading.get_ident())
        self.gate.wait(60)
        if self.error is not None:
            raise self.error
        self.count += 1
        return self.count

    def produce(self, *, fresh: int, usable: int = 0) -> Renewal[int]:
        """Returns a renewal of numbers."""
        return Renewal(self.obtain, lambda n: n >= fresh, lambda n: n >= usable)


async def test_all_that_wait_share_one_renewal() -> None:
    """Not in the thread of the loop, and a caller that is cancelled does not stop it."""
    source = Source()
    renewal = source.produce(fresh=1)
    source.gate.clear()
    callers = [asyncio.create_task(renewal.access()) for _ in range(5)]
    await asyncio.sleep(0.01)
    callers[0].cancel()
    source.gate.set()
    values = await asyncio.gather(*callers, return_exceptions=True)
    assert values[1:] == [1, 1, 1, 1]
    assert isinstance(values[0], asyncio.CancelledError)
    assert source.threads.isdisjoint({threading.get_ident()})
    assert await renewal.access() == 1  # still fresh
    assert source.count == 1


async def test_stale_credentials_serve_while_there_are_no_others() -> None:
    """But not those that have ended."""
    source = Source()
    renewal = source.produce(fresh=9, usable=2)
    assert [await renewal.access(), await renewal.access()] == [1, 2]
    source.error = TransportError(detail="Away.")
    assert await renewal.access() == 2
    renewal.current = 1
    with pytest.raises(TransportError):
        await renewal.access()


async def test_another_event_loop_gets_them_as_well() -> None:
    """A synchronous face has a loop of its own."""
    source = Source()
    renewal = source.produce(fresh=3)
    assert await renewal.access() == 1
    assert await asyncio.to_thread(lambda: asyncio.run(renewal.access())) == 2
    assert await renewal.access() == 3


@attrs.define
class Numbering:
    """Adds numbers to requests."""

    number: int = 1
    renewals: int = 0
    error: Exception | None = None
    is_ready: bool = True

    async def authorize(self, request: WireRequest) -> WireRequest:
        """Adds a number, unless there is one."""
        if "x-number" in request.headers:
            return request
        headers = {**request.headers, "x-number": ObtainedSecret(str(self.number))}
        return attrs.evolve(request, headers=headers)

    def is_refused(self, request: WireRequest, exchange: Exchange) -> bool:
        """Judges by the status."""
        return exchange.status == 401 and isinstance(request.headers["x-number"], ObtainedSecret)

    async def renew(self, refused: WireRequest) -> None:
        """Takes the next number."""
        if self.error is not None:
            raise self.error
        self.renewals += 1
        self.number += 1

    def list_secrets(self) -> list[Secret]:
        """Has none."""
        return []


def _reveal(request: WireRequest) -> str:
    number = request.headers["x-number"]
    return number.reveal() if isinstance(number, Secret) else number


@pytest.mark.parametrize(
    ("statuses", "last", "numbers"),
    [([200], 200, ["1"]), ([401, 200], 200, ["1", "2"]), ([401, 401], 401, ["1", "2"])],
)
async def test_a_refused_request_is_sent_once_more(
    statuses: list[int], last: int, numbers: list[str]
) -> None:
    """With other credentials; a second refusal is the answer."""
    counterpart = Counterpart([MemoryAnswer(status=status) for status in statuses])
    transport = AuthorizingTransport(counterpart.transport, Numbering())
    exchange = await transport.send(WireRequest(url="https://x.example/"))
    assert exchange.status == last
    assert list(map(_reveal, counterpart.requests)) == numbers


async def test_credentials_of_the_user_are_not_replaced() -> None:
    """What they get is the vendor's answer."""
    counterpart, numbering = Counterpart([MemoryAnswer(status=401)]), Numbering()
    transport = AuthorizingTransport(counterpart.transport, numbering)
    exchange = await transport.send(
        WireRequest(url="https://x.example/", headers={"x-number": "7"})
    )
    assert (exchange.status, numbering.renewals) == (401, 0)


async def test_a_renewal_that_fails_is_the_error() -> None:
    """It says more than the refusal."""
    counterpart = Counterpart([MemoryAnswer(status=401)])
    failing = Numbering(error=ProviderError(detail="Revoked."))
    with pytest.raises(ProviderError, match="Revoked"):
        await AuthorizingTransport(counterpart.transport, failing).send(
            WireRequest(url="https://x.example/")
        )
