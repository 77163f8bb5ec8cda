"""What several processes may use of one vendor together: the pace is theirs, and not each one's.

A budget is a line of time, kept by whoever all of them can ask: each request, and each token, takes
up a stretch of it. A process takes up a second's worth at once, so that a thousand requests are not
a thousand questions, and what was not used of it is given back with the next one.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Final, Protocol

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.providers.rates import RateLimiter, Rates

_MINUTE: Final = 60.0
_AHEAD_SECONDS: Final = 1.0
"""How long a process may send by what it takes up at once; what is older is not made up for."""

_PAUSE_SECONDS: Final = 0.5


class Budgets(Protocol):
    """Keeps the budgets that processes share."""

    def reserve(self, name: str, seconds: float) -> float:
        """Takes up a stretch of a line, behind all that is taken up; any thread may ask.

        Args:
            name: Of the line.
            seconds: How long the stretch is; below 0 it is given back.

        Returns:
            In how many seconds it begins; 0 where nobody has anything before it.

        Raises:
            StoreError: It is out of reach.
        """


class Lease:
    """What this process has taken up of a line.

    Args:
        budgets: Keeps it.
        name: Of the line.
        per_minute: How much of it is used in a minute.
        clock: Tells when it is, and waits.
    """

    def __init__(self, budgets: Budgets, name: str, per_minute: int, clock: Clock) -> None:
        self._budgets = budgets
        self._name = name
        self._unit_seconds = _MINUTE / per_minute
        self._usual = max(1.0, per_minute * _AHEAD_SECONDS // _MINUTE)
        self._clock = clock
        self._filling = threading.Lock()
        self._lock = threading.Lock()
        self._next = 0.0  # when what is left of it may be used
        self._left = 0.0
        self._owed = 0.0  # what was used beyond what was put down, or not used of it

    def take(self, amount: float) -> float | None:
        """Returns when an amount may be used; ``None`` where that much is not taken up."""
        with self._lock:
            late = self._clock.read() - self._next
            if late > _AHEAD_SECONDS:  # its time has gone by, and others may have used it
                self._left = 0.0
            if self._left < amount:
                return None
            due = self._next
            self._left -= amount
            self._next += amount * self._unit_seconds
            return due

    async def draw(self, amount: float) -> float:
        """Returns when an amount may be used. While nobody can be asked, it waits."""
        while (due := self.take(amount)) is None:
            try:
                await asyncio.to_thread(self._fill, amount)
            except StoreError:
                await self._clock.sleep(_PAUSE_SECONDS)
        return due

    def correct(self, amount: float) -> None:
        """Notes that more was used than was put down, or less where it is below 0."""
        with self._lock:
            self._owed += amount

    def _fill(self, amount: float) -> None:
        with self._filling:
            with self._lock:
                if self._left >= amount:  # another has filled it meanwhile
                    return
                change = self._owed - self._left
                self._owed, self._left = 0.0, 0.0
            size = max(amount, self._usual)
            try:
                seconds = self._budgets.reserve(self._name, (size + change) * self._unit_seconds)
            except BaseException:
                self.correct(change)
                raise
            with self._lock:
                self._next = self._clock.read() + max(0.0, seconds)
                self._left = size


class SharedLimiter(RateLimiter):
    """When the next request to a vendor may go, where other processes ask it, too.

    What the user allows is shared; how a refusal slows requests down each process sees by itself.

    Args:
        name: Of the vendor: with the same name processes share what it allows.
        rates: What the user allows all of them together.
        budgets: Keeps what is used.
        longest_seconds: A vendor that asks to wait longer is not obeyed here: its error tells.
        clock: Tells when it is, and waits.
        obeys: Whether requests wait for what the vendor says.
    """

    def __init__(
        self,
        name: str,
        rates: Rates,
        budgets: Budgets,
        *,
        longest_seconds: float,
        clock: Clock,
        obeys: bool = True,
    ) -> None:
        super().__init__(Rates(), longest_seconds=longest_seconds, clock=clock, obeys=obeys)
        requests, tokens = rates.requests_per_minute, rates.tokens_per_minute
        self._requests = requests and Lease(budgets, f"{name}/requests", requests, clock)
        self._tokens = tokens and Lease(budgets, f"{name}/tokens", tokens, clock)

    @property
    def counts_tokens(self) -> bool:
        """Whether anybody wants to hear what answers used."""
        return bool(self._tokens)

    def admit(self, tokens: float) -> bool:
        """Lets no request go at once that a budget bounds."""
        return not (self._requests or self._tokens) and super().admit(tokens)

    async def acquire(self, tokens: float) -> None:
        """Waits for the turn of a request, which is put down for so many tokens."""
        due = 0.0
        if self._tokens:
            due = await self._tokens.draw(tokens)
        if self._requests:
            due = max(due, await self._requests.draw(1.0))
        now = self._clock.read()
        if due > now:
            try:
                await self._clock.sleep(due - now)
            except BaseException:
                self._return(tokens)
                raise
        await super().acquire(0.0)

    def settle(self, expected: float, used: float, answered: float) -> None:
        """Puts what a request used in the place of what had been put down for it."""
        if self._tokens:
            self._tokens.correct(used - expected)
            self.learn_answer(answered)

    def _return(self, tokens: float) -> None:
        """Gives back what nobody waits for any more."""
        if self._tokens:
            self._tokens.correct(-tokens)
        if self._requests:
            self._requests.correct(-1.0)


def produce_limiter(
    name: str, limits: Limits, rates: Rates, clock: Clock, budgets: Budgets | None
) -> RateLimiter:
    """Makes one that keeps to the limits ``attempts`` and ``retry_seconds``."""
    if budgets is None or rates == Rates():
        return RateLimiter.of(limits, rates, clock)
    return SharedLimiter(
        name,
        rates,
        budgets,
        longest_seconds=limits.retry_seconds,
        clock=clock,
        obeys=limits.attempts > 1,
    )
