"""Overhead of our transport and framer over the floor: a bare aiohttp, a split and msgspec.

Rows: a chunk of a stream that arrives at once and one by one, alone and fifty at a time, and a
small call alone and 64 at a time, by each of the three protocols. ``bench_providers.py``
measures the whole way to our events.
"""

from __future__ import annotations

import asyncio

import clients
import loopback
import msgspec

from vibe_llms.foundation.limits import Limits
from vibe_llms.wire.direct import DirectTransport
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.sse import SseFramer


class Wire:
    """The floor's work by our transport and framer."""

    name = "wire"

    async def open(self, url: str) -> None:
        """Makes the transport."""
        self._url = url
        self._limits = Limits()
        self._transport = DirectTransport(limits=self._limits)

    async def stream(self, pace: str, protocol: str) -> int:
        """Reads a stream to its end; returns how many chunks of text it had."""
        kind, read = clients.READERS[protocol]
        decoder = msgspec.json.Decoder(kind)
        framer = SseFramer(self._limits)
        seen = 0
        url = f"{self._url}/{pace}{loopback.PATHS[protocol]}"
        request = WireRequest(url=url, body=clients.STREAM_BODY, headers=clients.HEADERS)
        async with await self._transport.send(request) as exchange:
            while data := await exchange.receive():
                for frame in framer.feed(data):
                    if frame.data != b"[DONE]":
                        seen += read(decoder.decode(frame.data))
        return seen

    async def call(self, protocol: str) -> None:
        """Makes a small call."""
        url = self._url + loopback.PATHS[protocol]
        request = WireRequest(url=url, body=clients.CALL_BODY, headers=clients.HEADERS)
        async with await self._transport.send(request) as exchange:
            msgspec.json.decode(await exchange.read())

    async def ask(self, protocol: str) -> None:
        """Makes a small call whose answer is streamed."""
        await self.stream("short", protocol)

    async def close(self) -> None:
        """Closes the transport."""
        await self._transport.close()


async def _main(url: str) -> None:
    subject = Wire()
    await subject.open(url)
    grown = await clients.measure_memory(subject, "chat")
    await subject.close()
    print(f"{clients.SLOW_STREAMS} slow streams: {grown:.0f} KB each")
    await clients.print_table(Wire, url)


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url:
        asyncio.run(_main(url))


if __name__ == "__main__":
    main()
