"""Authorizer for tests that admits all clients and records its calls."""

from __future__ import annotations

from decimal import Decimal

import attrs

from vibe_llms.messages.canisters import Usage
from vibe_llms.plugins.specification.daemons import Arrival, Demand


@attrs.define
class Account:
    """An authorizer, a grant and a reservation in one, which records its calls."""

    admitted: bool = True
    calls: list[str] = attrs.field(factory=list)
    used: list[tuple[Usage | None, Decimal | None]] = attrs.field(factory=list)
    demands: list[Demand] = attrs.field(factory=list)
    subject: str = "somebody"

    async def authorize(self, arrival: Arrival) -> Account:
        return self

    def admits(self, model: str) -> bool:
        return self.admitted

    async def reserve(self, demand: Demand) -> Account:
        self.demands.append(demand)
        return self

    async def settle(self, usage: Usage | None, cents: Decimal | None) -> None:
        self.calls.append("settled")
        self.used.append((usage, cents))

    async def release(self) -> None:
        self.calls.append("released")

    async def close(self) -> None: ...
