"""Keys of a gateway, and requests with them, for tests of the built-in authorizer."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.daemons.keys.authorizer import KeyAuthorizer
from vibe_llms.daemons.keys.charges import KeySpending, add_spending
from vibe_llms.daemons.keys.ledger import KeyAccount
from vibe_llms.daemons.keys.register import Key, Register, read_keys_in
from vibe_llms.daemons.keys.texts import compute_digest, extract_identity, generate_key
from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Arrival, Demand, Grant

MODEL = "openai:gpt-5.5"
NOON = 1_795_521_600.0
"""2026-11-24 12:00 UTC."""


@attrs.define
class ManualClocks:
    """Wall clock and steady clock that only the test advances."""

    wall: float = NOON
    steady: float = 1000.5

    def read_time(self) -> float:
        return self.wall

    def read(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


def create_key(directory: Path, name: str = "ada", **bounds: Any) -> str:
    """Create a key; return its text."""
    text = generate_key()
    key = Key(name=name, digest=compute_digest(text), created=datetime.now(UTC), **bounds)
    Register(directory).add(extract_identity(text), key)
    return text


def read_keys(path: str) -> dict[str, Key]:
    """Read a file of keys."""
    return read_keys_in(Path(path).read_bytes(), path)


def open_authorizer(directory: Path, clocks: ManualClocks, **more: Any) -> KeyAuthorizer:
    """Open the authorizer of one process."""
    return KeyAuthorizer(directory, read_clock=clocks.read, read_time=clocks.read_time, **more)


def produce_arrival(text: str) -> Arrival:
    """Return the arrival of a request with a key."""
    return Arrival(method="POST", path="/v1/responses", headers={}, credential=text)


async def open_grant(authorizer: KeyAuthorizer, text: str) -> Grant:
    """Authorize a key; return its grant."""
    return await authorizer.authorize(produce_arrival(text))


def produce_demand(
    input_tokens: int = 10, output_tokens: int | None = 20, cents: Any = "0.5"
) -> Demand:
    """Return the expected usage of a request, to reserve."""
    return Demand(
        model="gpt-5.5",
        address=MODEL,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cents=None if cents is None else Decimal(cents),
    )


def produce_usage(input_tokens: int = 7, output_tokens: int = 5) -> Usage:
    """Return the actual usage of a request."""
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens)


def sum_spending(account: KeyAccount) -> KeySpending:
    """Return the sum over keys, models and days."""
    whole = KeySpending()
    for each in account.spent.values():
        whole = add_spending(whole, each)
    return whole


def count_open_requests(account: KeyAccount) -> int:
    """Return the number of open requests of running processes."""
    return sum(each.perhaps_requests for each in account.under_way.values())
