"""Rate limits that several processes share for one vendor.

A budget is a timeline in a store that all processes share: each request and each token occupies
some of its seconds. A process reserves enough for one second of requests at once, so that a
thousand requests do not need a thousand reservations. A process returns the unused part with its
next reservation.
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
"""Seconds after which a reservation expires."""

_PAUSE_SECONDS: Final = 0.5


class Budgets(Protocol):
    """Store of budgets that processes share."""

    def reserve(self, name: str, seconds: float) -> float:
        """Reserve an interval of a timeline, after all earlier ones. Thread-safe.

        Args:
            name: Name of the timeline.
            seconds: Length of the interval; a negative length returns reserved time.

        Returns:
            The seconds until the interval begins; 0 if nothing is reserved before it.

        Raises:
            StoreError: The store is unreachable.
        """


class Lease:
    """Reservation of this process on a timeline.

    Args:
        budgets: The store.
        name: Name of the timeline.
        per_minute: The amount that may be used in a minute.
        clock: Returns the time, and waits.
    """

    def __init__(self, budgets: Budgets, name: str, per_minute: int, clock: Clock) -> None:
        self._budgets = budgets
        self._name = name
        self._unit_seconds = _MINUTE / per_minute
        self._default_amount = max(1.0, per_minute * _AHEAD_SECONDS // _MINUTE)
        self._clock = clock
        self._reserving = threading.Lock()
        self._lock = threading.Lock()
        self._next = 0.0  # when the remaining amount may be used
        self._remaining = 0.0
        self._difference = 0.0  # used minus estimated, not reported yet

    def use(self, amount: float) -> float | None:
        """Return when an amount may be used; ``None`` if less than that is reserved."""
        with self._lock:
            late = self._clock.read() - self._next
            if late > _AHEAD_SECONDS:  # expired: other processes may have used the time
                self._remaining = 0.0
            if self._remaining < amount:
                return None
            due = self._next
            self._remaining -= amount
            self._next += amount * self._unit_seconds
            return due

    async def acquire(self, amount: float) -> float:
        """Return when an amount may be used. Waits while the store is unreachable."""
        while (due := self.use(amount)) is None:
            try:
                await asyncio.to_thread(self._reserve_more, amount)
            except StoreError:
                await self._clock.sleep(_PAUSE_SECONDS)
        return due

    def correct(self, amount: float) -> None:
        """Add the usage beyond the estimate; negative if less was used."""
        with self._lock:
            self._difference += amount

    def _reserve_more(self, amount: float) -> None:
        """Replace the reservation by one of at least this amount. Blocks."""
        with self._reserving:
            with self._lock:
                if self._remaining >= amount:  # another thread has reserved more
                    return
                change = self._difference - self._remaining
                self._difference, self._remaining = 0.0, 0.0
            size = max(amount, self._default_amount)
            try:
                seconds = self._budgets.reserve(self._name, (size + change) * self._unit_seconds)
            except BaseException:
                self.correct(change)
                raise
            with self._lock:
                self._next = self._clock.read() + max(0.0, seconds)
                self._remaining = size


class SharedLimiter(RateLimiter):
    """Rate limiter for a vendor that other processes also use.

    The processes share the user's rates. After a rate limit error, each process slows down
    separately.

    Args:
        name: Name of the vendor: all processes that use this name share the rates.
        rates: The user's rates for all processes together.
        budgets: Stores the budgets.
        longest_seconds: If a vendor asks for a longer wait, its error is raised instead.
        clock: Returns the time, and waits.
        obeys: Whether requests wait as long as the vendor asks.
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
        self.counts_tokens = bool(self._tokens)

    def admit(self, tokens: float) -> bool:
        """Admit a request that needs no wait; never one with a budget, whose store takes time."""
        return not (self._requests or self._tokens) and super().admit(tokens)

    async def acquire(self, tokens: float) -> None:
        """Wait until a request with this estimate of tokens may be sent."""
        due = 0.0
        if self._tokens:
            due = await self._tokens.acquire(tokens)
        if self._requests:
            due = max(due, await self._requests.acquire(1.0))
        now = self._clock.read()
        if due > now:
            try:
                await self._clock.sleep(due - now)
            except BaseException:
                self._correct_leases(tokens)
                raise
        await super().acquire(0.0)

    def settle(self, estimate: float, used: float, output: float) -> None:
        """Replace the estimate of a request by its actual usage."""
        if self._tokens:
            self._tokens.correct(used - estimate)
            self.learn_output(output)

    def _correct_leases(self, tokens: float) -> None:
        """Return the reservation of a cancelled request."""
        if self._tokens:
            self._tokens.correct(-tokens)
        if self._requests:
            self._requests.correct(-1.0)


def produce_limiter(
    name: str, limits: Limits, rates: Rates, clock: Clock, budgets: Budgets | None
) -> RateLimiter:
    """Make a limiter with the limits ``attempts`` and ``retry_seconds``."""
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
