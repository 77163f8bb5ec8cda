"""Clients that ask a gateway again and again, whatever becomes of it."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

import aiohttp
import attrs

from gateways import become
from hostile_upstreams import Process
from vibe_llms.daemons.keys.ledger import Account, Ledger

MODELS = ("openai_conversations:answer-slowly", "anthropic:answer-slowly")
CLIENTS = 6
LONGEST_SECONDS = 12.0
"""Behind which no client waits: ``total_seconds`` is 8, and a new worker is there in a second."""


@attrs.define
class Crowd:
    """Clients that ask again and again, whatever becomes of the gateway."""

    process: Process
    acknowledged: int = 0
    is_over: bool = False

    async def ask(self, key: str = "", model: str = MODELS[0], *, stream: bool = False) -> int:
        """Asks once; returns the status, or 0 where the connection broke."""
        body = {"model": model, "messages": [{"role": "user", "content": "A sea?"}]}
        headers = {"authorization": f"Bearer {key or self.process.key}"}
        url = f"{self.process.url}/v1/chat/completions"
        told = {**body, "max_tokens": 9, "stream": stream}
        async with asyncio.timeout(LONGEST_SECONDS), aiohttp.ClientSession() as session:
            try:
                async with session.post(url, json=told, headers=headers) as answer:
                    await answer.read()
                    return answer.status
            except (aiohttp.ClientError, ConnectionError):
                await asyncio.sleep(0.02)
                return 0

    async def go_on(self, number: int) -> None:
        """Asks until it is over, by both ways, streamed and not."""
        turn = number
        while not self.is_over:
            model, stream = MODELS[turn % 2], turn % 4 < 2
            self.acknowledged += await self.ask(model=model, stream=stream) == 200
            turn += 1

    async def grow_by(self, count: int) -> None:
        """Waits until so many more are acknowledged."""
        wanted = self.acknowledged + count
        await become(lambda: self.acknowledged >= wanted, 30)


def survey(directory: Path) -> Account:
    """Looks at the account after the last process has ended."""
    with closing(Ledger(directory, read_clock=time.monotonic, tell_time=time.time)) as ledger:
        return ledger.survey()
