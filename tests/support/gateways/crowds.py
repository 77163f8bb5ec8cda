"""Clients that ask a gateway again and again, whatever becomes of it.

Each request has a model of its own name, so that accounts, which are by model, tell of each alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import aiohttp
import attrs

from support.gateways.gateways import wait_until
from support.gateways.hostile_upstreams import TAG, Process
from support.gateways.key_holders import count_open_requests, sum_spending
from vibe_llms.daemons.keys.charges import KeySpending, add_spending
from vibe_llms.daemons.keys.ledger import KeyAccount, KeyLedger

MODELS = ("openai_conversations:answer-slowly", "anthropic:answer-slowly")
CLIENTS = 6
LONGEST_SECONDS = 70.0
"""Behind which no client waits: ``total_seconds`` is 60, and a new worker is there in a second."""


@attrs.define
class Crowd:
    """Clients that ask again and again, whatever becomes of the gateway.

    Attributes:
        acknowledged: The models of all requests that were answered whole.
    """

    process: Process
    acknowledged: list[str] = attrs.field(factory=list)
    asked_count: int = 0
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
            self.asked_count += 1
            model, stream = f"{MODELS[turn % 2]}{TAG}{self.asked_count}", turn % 4 < 2
            if await self.ask(model=model, stream=stream) == 200:
                self.acknowledged.append(model)
            turn += 1

    async def grow_by(self, count: int) -> None:
        """Wait until so many more are acknowledged."""
        wanted = len(self.acknowledged) + count
        await wait_until(lambda: len(self.acknowledged) >= wanted, 60)


def find_faults(
    account: KeyAccount, acknowledged: Sequence[str], upstream: Sequence[str], deaths: int
) -> list[str]:
    """Return what does not hold between accounts, clients and an upstream.

    Args:
        acknowledged: The models of requests that clients have had an answer to.
        upstream: The models that the upstream was asked for, without their providers.
        deaths: How many processes have died.
    """
    by_model: dict[str, KeySpending] = {}
    for place, each in account.spent.items():
        by_model[place.model] = add_spending(by_model.get(place.model, KeySpending()), each)
    counts = {name: each.requests + each.perhaps_requests for name, each in by_model.items()}
    billed = {name.partition(":")[2] for name, each in by_model.items() if each.requests}
    known = {name.partition(":")[2] for name in counts}
    whole = sum_spending(account)
    holds = {
        "nothing is under way": count_open_requests(account) == 0,
        "what was acknowledged is in the accounts": set(acknowledged) <= set(counts),
        "what was sent is in the accounts": set(upstream) <= known,
        "what is billed was sent": billed <= set(upstream),
        "nothing is sent twice": len(set(upstream)) == len(upstream),
        "nothing counts twice": set(counts.values()) <= {1},
        # Each death leaves at most one request of each client in the dark.
        "little is in the dark": whole.perhaps_requests <= deaths * CLIENTS,
        "most is known": whole.perhaps_requests < whole.requests,
        "tokens are those of requests": whole.output_tokens == 5 * whole.requests,
    }
    return [name for name, is_so in holds.items() if not is_so]


def survey(directory: Path) -> KeyAccount:
    """Looks at the account after the last process has ended."""
    with closing(KeyLedger(directory, read_clock=time.monotonic, read_time=time.time)) as ledger:
        return ledger.survey()
