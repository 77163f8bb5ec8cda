"""Clients that send requests to a gateway all the time, also while it is restarted.

Each request has a model name of its own, so that the accounts, which are by model, show each
request separately.
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
"""Time limit of clients: ``total_seconds`` is 60, and a new worker starts within a second."""


@attrs.define
class ClientCrowd:
    """Clients that send requests until the test sets ``is_over``.

    Attributes:
        acknowledged: The models of all requests with complete answers.
    """

    process: Process
    acknowledged: list[str] = attrs.field(factory=list)
    request_count: int = 0
    is_over: bool = False

    async def ask(self, key: str = "", model: str = MODELS[0], *, stream: bool = False) -> int:
        """Send one request; return the status, or 0 if the connection broke."""
        body = {"model": model, "messages": [{"role": "user", "content": "A sea?"}]}
        headers = {"authorization": f"Bearer {key or self.process.key}"}
        url = f"{self.process.url}/v1/chat/completions"
        payload = {**body, "max_tokens": 9, "stream": stream}
        async with asyncio.timeout(LONGEST_SECONDS), aiohttp.ClientSession() as session:
            try:
                async with session.post(url, json=payload, headers=headers) as answer:
                    await answer.read()
                    return answer.status
            except (aiohttp.ClientError, ConnectionError):
                await asyncio.sleep(0.02)
                return 0

    async def keep_asking(self, number: int) -> None:
        """Send requests until ``is_over``: passed through and translated, streamed and complete."""
        turn = number
        while not self.is_over:
            self.request_count += 1
            model, stream = f"{MODELS[turn % 2]}{TAG}{self.request_count}", turn % 4 < 2
            if await self.ask(model=model, stream=stream) == 200:
                self.acknowledged.append(model)
            turn += 1

    async def wait_for_answers(self, count: int) -> None:
        """Wait until ``count`` more requests are acknowledged."""
        expected = len(self.acknowledged) + count
        await wait_until(lambda: len(self.acknowledged) >= expected, 60)


def find_faults(
    account: KeyAccount, acknowledged: Sequence[str], upstream: Sequence[str], deaths: int
) -> list[str]:
    """Compare accounts with the counts of clients and upstream; return the violated rules.

    Args:
        acknowledged: The models of requests that clients received answers to.
        upstream: The models in the upstream's requests, without their providers.
        deaths: Number of processes that died.
    """
    by_model: dict[str, KeySpending] = {}
    for place, each in account.spent.items():
        by_model[place.model] = add_spending(by_model.get(place.model, KeySpending()), each)
    counts = {name: each.requests + each.perhaps_requests for name, each in by_model.items()}
    billed = {name.partition(":")[2] for name, each in by_model.items() if each.requests}
    known = {name.partition(":")[2] for name in counts}
    whole = sum_spending(account)
    rules = {
        "no request is open": count_open_requests(account) == 0,
        "acknowledged requests are in the accounts": set(acknowledged) <= set(counts),
        "sent requests are in the accounts": set(upstream) <= known,
        "billed requests were sent": billed <= set(upstream),
        "nothing is sent twice": len(set(upstream)) == len(upstream),
        "nothing counts twice": set(counts.values()) <= {1},
        # Each death leaves at most one request of each client uncertain.
        "few requests are uncertain": whole.perhaps_requests <= deaths * CLIENTS,
        "most requests are certain": whole.perhaps_requests < whole.requests,
        "tokens match the requests": whole.output_tokens == 5 * whole.requests,
    }
    return [name for name, is_met in rules.items() if not is_met]


def survey(directory: Path) -> KeyAccount:
    """Return the account after the last process has ended."""
    with closing(KeyLedger(directory, read_clock=time.monotonic, read_time=time.time)) as ledger:
        return ledger.survey()
