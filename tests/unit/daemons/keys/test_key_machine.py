"""Whatever several processes do with keys, the account says what happened, and bounds hold."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from support.gateways.key_holders import (
    ManualClocks,
    count_open_requests,
    create_key,
    open_authorizer,
    open_grant,
    produce_demand,
    produce_usage,
    sum_spending,
)
from support.quality.properties import examples
from vibe_llms.daemons.keys.authorizer import KeyAuthorizer
from vibe_llms.daemons.keys.charges import KeySpending
from vibe_llms.daemons.keys.ledger import KeyAccount
from vibe_llms.exceptions import AccessError, ProviderFault
from vibe_llms.messages.canisters import Usage

REQUESTS, TOKENS, CENTS = 4, 100, 4
PRICES = st.decimals(0, 2, places=9) | st.just(Decimal("1.5"))
COUNTS = st.integers(0, 40)
SMALL = st.integers(0, 15)
BOUNDED = st.sampled_from([True, True, False])
PROCESSES = st.integers(0, 1)


@attrs.define(eq=False)
class Asked:
    """One request, as the test knows it.

    Attributes:
        second, tokens, requests: What it counts in its minute.
        cents: What it counts on its day.
    """

    process: int
    is_bounded: bool
    reservation: Any
    day: float
    second: int
    limit: int
    reserved: Decimal
    tokens: int = 0
    requests: int = 1
    cents: Decimal = Decimal(0)
    is_over: bool = False


class Gateways(RuleBasedStateMachine):
    """Two processes, one key with bounds and one without, and a plain account of all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = Path(tempfile.mkdtemp())
        self.clocks = ManualClocks()
        self.texts = [
            create_key(
                self.directory, "bounded", requests_per_minute=REQUESTS,
                tokens_per_minute=TOKENS, cents_per_day=CENTS,
            ),
            create_key(self.directory, "free"),
        ]  # fmt: skip
        self.processes: list[KeyAuthorizer] = [self._open(), self._open()]
        self.all: list[Asked] = []
        self.spent = KeySpending()

    def _open(self) -> KeyAuthorizer:
        return open_authorizer(self.directory, self.clocks)

    @rule(
        process=PROCESSES,
        wishes=st.lists(
            st.tuples(BOUNDED, SMALL, SMALL | st.none(), PRICES), min_size=1, max_size=6
        ),
    )
    def reserve(self, process: int, wishes: list[tuple[bool, int, int | None, Decimal]]) -> None:
        for is_bounded, tokens, output, cents in wishes:
            self._ask(process, is_bounded, tokens, output, cents)

    def _ask(
        self, process: int, is_bounded: bool, tokens: int, output: int | None, cents: Decimal
    ) -> None:
        limit = tokens + (output or 0)
        expected = self._judge(limit, cents) if is_bounded else None

        async def perform() -> Any:
            grant = await open_grant(self.processes[process], self.texts[not is_bounded])
            return await grant.reserve(produce_demand(tokens, output, cents))

        if expected is not None:
            with pytest.raises(AccessError) as caught:
                self.runner.run(perform())
            assert caught.value.fault is expected
            return
        reservation = self.runner.run(perform())
        one = Asked(
            process, is_bounded, reservation, self.clocks.wall // 86_400,
            int(self.clocks.steady), limit, cents, tokens=limit, cents=cents,
        )  # fmt: skip
        self.all.append(one)

    def _judge(self, tokens: int, cents: Decimal) -> ProviderFault | None:
        """Says what the key with bounds may do, from all that was asked."""
        mine = [each for each in self.all if each.is_bounded]
        minute = [each for each in mine if each.second + 61 > self.clocks.steady]
        day = [each for each in mine if each.day == self.clocks.wall // 86_400]
        if tokens > TOKENS:
            return ProviderFault.PERMISSION
        if sum(each.cents for each in day) + cents > CENTS:
            return ProviderFault.QUOTA
        full = sum(each.requests for each in minute) + 1 > REQUESTS
        if full or sum(each.tokens for each in minute) + tokens > TOKENS:
            return ProviderFault.RATE_LIMITED
        return None

    @rule(
        ends=st.lists(
            st.tuples(st.integers(0, 9), st.none() | st.tuples(COUNTS, COUNTS), st.none() | PRICES),
            min_size=1,
            max_size=4,
        )
    )
    def settle(self, ends: list[tuple[int, tuple[int, int] | None, Decimal | None]]) -> None:
        for place, used, cents in ends:
            if (one := self._find_open(place)) is not None:
                usage: Usage | None = None if used is None else produce_usage(*used)
                self.runner.run(one.reservation.settle(usage, cents))
                one.is_over = True
                one.tokens = one.limit if used is None else sum(used)
                one.cents = one.reserved if cents is None else cents

    @rule(places=st.lists(st.integers(0, 9), min_size=1, max_size=4))
    def release(self, places: list[int]) -> None:
        for place in places:
            if (one := self._find_open(place)) is not None:
                self.runner.run(one.reservation.release())
                one.is_over, one.tokens, one.requests, one.cents = True, 0, 0, Decimal(0)

    def _find_open(self, place: int) -> Asked | None:
        held = [each for each in self.all if not each.is_over]
        return held[place % len(held)] if held else None

    @rule(process=PROCESSES, is_killed=st.booleans())
    def end(self, process: int, is_killed: bool) -> None:
        authorizer = self.processes[process]
        if is_killed:  # nothing of what it has in mind happens any more
            keeper, authorizer._folding = authorizer._folding, None
            if keeper is not None:
                keeper.cancel()
            authorizer._journal._log.close()
            authorizer._ledger.close()
        else:
            self.runner.run(authorizer.close())
        for one in self.all:
            one.is_over = one.is_over or one.process == process
        self.processes[process] = self._open()

    @rule(seconds=st.sampled_from([0.3, 7.0, 30.0, 59.5, 61.0, 9_000.0]))
    def wait(self, seconds: float) -> None:
        self.clocks.advance(seconds)

    @rule(seconds=st.sampled_from([-90_000.0, -3600.0, 90_000.0]))
    def jump(self, seconds: float) -> None:
        """The clock of the wall is put right, or wrong."""
        self.clocks.wall += seconds

    @invariant()
    def everything_is_accounted_for(self) -> None:
        account: KeyAccount = self.processes[0]._ledger.survey()
        whole = sum_spending(account)
        held = sum((each.perhaps_cents for each in account.under_way.values()), Decimal(0))
        sent = [each for each in self.all if each.requests]

        assert whole.cents + whole.perhaps_cents + held == sum(each.cents for each in sent)
        assert count_open_requests(account) == sum(not each.is_over for each in sent)
        assert whole.requests + whole.perhaps_requests == sum(each.is_over for each in sent)

    def teardown(self) -> None:
        for authorizer in self.processes:
            self.runner.run(authorizer.close())
        self.runner.close()
        shutil.rmtree(self.directory)


Gateways.TestCase.settings = settings(examples(160), stateful_step_count=25)
TestGateways = pytest.mark.slow(Gateways.TestCase)
