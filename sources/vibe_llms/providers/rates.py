"""Rate limits of one vendor: at most the user's rate, and slower on the vendor's request.

All requests of a provider share one rate, whether from batches, runs or chats, so one rate limit
error slows all requests down. This module does not decide about retries; a retry waits like any
other request.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from vibe_llms.events.stream import StreamEvent, UsageEvent
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import Usage
from vibe_llms.providers.streams import EventSource, detach

_RATE_FAULTS = frozenset({ProviderFault.RATE_LIMITED, ProviderFault.OVERLOADED})

_RECOVERY = 1.05
"""Factor by which a reduced rate grows in each second: it doubles in 14 seconds."""

_SLOWEST_SECONDS = 10.0
"""Maximum interval between two requests, if the vendor names none."""

_MINUTE = 60.0
_BYTES_A_TOKEN = 4
"""Reservation for a request that is not sent yet; the actual usage replaces the estimate later."""

_REMAINING = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
)
"""Headers in which vendors report what remains of a limit and when it is reset, read 2026-11-22:
https://platform.openai.com/docs/guides/rate-limits, which others follow, and
https://docs.anthropic.com/en/api/rate-limits.
"""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@frozen(kw_only=True)
class Rates:
    """The user's rates; ``None`` means unlimited."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class RateLimiter:
    """Decides when the next request to a vendor may be sent. Safe to share between event loops and
    threads.

    Args:
        rates: The user's rates.
        longest_seconds: If a vendor asks for a longer wait, its error is raised instead.
        clock: Returns the time, and waits.
        obeys: Whether requests wait as long as the vendor asks; its headers are read in any case.

    Attributes:
        counts_tokens: Whether the usage of answers is needed.
    """

    def __init__(
        self, rates: Rates, *, longest_seconds: float, clock: Clock, obeys: bool = True
    ) -> None:
        self._rates = rates
        self._is_limited = rates != Rates()
        self.counts_tokens = rates.tokens_per_minute is not None
        self._longest = longest_seconds
        self._obeys = obeys
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0  # when the next request may be sent
        self._next_tokens = 0.0  # when the tokens of all earlier requests are paid off
        self._rejected_until = 0.0  # until when the vendor rejects requests
        self._interval = 0.0  # between two requests; 0 unless slowed down
        self._slowed = 0.0  # when `_interval` was set; since then, it shrinks
        self._answer_tokens = 0.0  # mean tokens of recent answers
        self._second = 0.0
        self._counts = [0, 0]  # requests in this second, and in the one before

    @classmethod
    def of(cls, limits: Limits, rates: Rates, clock: Clock) -> RateLimiter:
        """Make a limiter with the limits ``attempts`` and ``retry_seconds``."""
        # A caller without retries gets rate limit errors immediately, and does not wait because of
        # errors of other callers.
        obeys = limits.attempts > 1
        return cls(rates, longest_seconds=limits.retry_seconds, clock=clock, obeys=obeys)

    def admit(self, tokens: float) -> bool:
        """Admit a request that need not wait, the usual case; return whether it was admitted.

        Args:
            tokens: Estimated tokens of the request and its answer.
        """
        lock = self._lock
        lock.acquire()  # a context manager takes twice as long
        try:
            now = self._clock.read()
            if now < self._next or now < self._rejected_until or now < self._next_tokens:
                return False
            if self._interval or self._is_limited:
                self._reserve(now, tokens)
            if now - self._second >= 1.0:
                self._note(now)
            else:
                self._counts[0] += 1
            return True
        finally:
            lock.release()

    async def acquire(self, tokens: float) -> None:
        """Wait until a request with this estimate of tokens may be sent."""
        due: float | None = None
        interval = 0.0
        while True:
            with self._lock:
                now = self._clock.read()
                # The limit changed during the wait: start again.
                if due is None or (self._obeys and due < self._rejected_until):
                    due, interval = self._reserve(now, tokens if due is None else 0.0)
                if due <= now:
                    self._note(now)
                    return
            try:
                await self._clock.sleep(due - now)
            except BaseException:
                self._cancel_reservation(interval, tokens)
                raise

    def estimate(self, size_bytes: int) -> float:
        """Estimate the tokens of a request with a body of this size, including its answer."""
        return size_bytes / _BYTES_A_TOKEN + self._answer_tokens

    def settle(self, estimate: float, used: float, output: float) -> None:
        """Replace the estimate of a request by its actual usage.

        Args:
            estimate: The estimate.
            used: All its tokens, as reported by the vendor.
            output: The tokens of its answer.
        """
        limit = self._rates.tokens_per_minute
        if limit is None:
            return
        with self._lock:
            # May become earlier: tokens that were estimated but not used are free for others.
            self._next_tokens += (used - estimate) * _MINUTE / limit
        self.learn_output(output)

    def learn_output(self, output: float) -> None:
        """Add the tokens of an answer to the mean for estimates."""
        with self._lock:
            self._answer_tokens += (output - self._answer_tokens) / 8  # moving average

    def slow_down(self, error: ConverseError) -> None:
        """Slow all requests down after a rate limit error, if the vendor is obeyed."""
        if not isinstance(error, ProviderError) or error.fault not in _RATE_FAULTS:
            return
        with self._lock:
            now = self._clock.read()
            wait_seconds = error.retry_after_seconds
            if wait_seconds is not None and wait_seconds <= self._longest:
                self._wait_until(now + wait_seconds)
            if self._obeys and now - self._slowed >= 1.0:  # simultaneous errors count once
                recent_requests = max(self._counts)  # in one second
                earlier_interval = self._access_interval(now)
                # A single request was not too fast: slowing down would not help.
                if recent_requests > 1 or earlier_interval:
                    # Half the rate that was rejected, or half of the reduced rate.
                    interval = max(2.0 / max(recent_requests, 1), 2.0 * earlier_interval)
                    self._interval = min(interval, _SLOWEST_SECONDS)
                    self._slowed = now
                    self._next = max(self._next, now) + self._interval

    def learn(self, headers: Mapping[str, str]) -> None:
        """Wait for the reset of exhausted limits, as reported in a vendor's headers."""
        for seconds in survey_resets(headers):
            if seconds <= self._longest:
                with self._lock:
                    self._wait_until(self._clock.read() + seconds)

    @property
    def hold_seconds(self) -> float:
        """Seconds for which the vendor rejects requests, according to its headers; 0 for none."""
        return max(0.0, self._rejected_until - self._clock.read()) if self._rejected_until else 0.0

    def _wait_until(self, until: float) -> None:
        self._rejected_until = max(self._rejected_until, until)
        if self._obeys:
            self._next = max(self._next, self._rejected_until)

    def _cancel_reservation(self, interval: float, tokens: float) -> None:
        """Return the reservation of a cancelled request, for use by later requests."""
        limit = self._rates.tokens_per_minute
        with self._lock:
            self._next -= interval
            if limit is not None:
                self._next_tokens -= tokens * _MINUTE / limit

    def _reserve(self, now: float, tokens: float) -> tuple[float, float]:
        """Return when a request may be sent, and by how much later ones are delayed."""
        requests, limit = self._rates.requests_per_minute, self._rates.tokens_per_minute
        due = max(now, self._next, self._rejected_until if self._obeys else 0.0)
        if limit is not None:
            due = max(due, self._next_tokens)
            self._next_tokens = due + tokens * _MINUTE / limit
        interval = self._access_interval(now) if self._interval else 0.0
        if requests is not None:
            interval = max(interval, _MINUTE / requests)
        self._next = due + interval if interval else self._next
        return due, interval

    def _access_interval(self, now: float) -> float:
        """Return the interval that an earlier rate limit error still imposes; 0 for none."""
        if not self._interval:
            return 0.0
        interval = self._interval / _RECOVERY ** (now - self._slowed)
        if interval < self._interval / 4:  # twice the rejected rate, without another error
            self._interval = 0.0
            return 0.0
        return float(interval)

    def _note(self, now: float) -> None:
        """Count a request for the current second."""
        if now - self._second >= 1.0:
            # Keep the count of the previous second only if it directly precedes the current second.
            self._counts = [0, self._counts[0] if now - self._second < 2.0 else 0]
            self._second = now
        self._counts[0] += 1


class Ticket:
    """One request at the rate limiter: waits until the request may be sent, and settles its usage.

    Args:
        limiter: The vendor's limiter.
    """

    __slots__ = ("_limiter", "_tokens")

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self._tokens = 0.0

    def admit(self, size_bytes: int) -> bool:
        """Admit a request with a body of this size at once, if possible; return whether it was."""
        if self._limiter.counts_tokens:
            self._tokens = self._limiter.estimate(size_bytes)
        return self._limiter.admit(self._tokens)

    async def acquire(self, size_bytes: int) -> None:
        """Wait until a request with a body of this size may be sent."""
        if not self.admit(size_bytes):
            await self._limiter.acquire(self._tokens)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Read the limits in the headers of an answer."""
        if "0" in headers.values():  # most answers report no exhausted limit
            self._limiter.learn(headers)

    def report(self, error: ConverseError) -> None:
        """Report an error to the limiter."""
        self._limiter.slow_down(error)

    def read_usage(self, events: Sequence[StreamEvent]) -> None:
        """Read the usage in the events of an answer."""
        for event in events:
            # A stream may report usage several times: settle only the difference.
            if isinstance(event, UsageEvent):
                self.settle(event.usage)

    def settle(self, usage: Usage) -> None:
        """Replace the estimate by the reported usage."""
        output = usage.total_output_tokens or 0
        used = (usage.total_input_tokens or 0) + output
        self._limiter.settle(self._tokens, used, output)
        self._tokens = used


class SettlingSource:
    """An event source that reports its usage to a ticket."""

    def __init__(self, source: EventSource, ticket: Ticket) -> None:
        self._source = source
        self._ticket = ticket

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Return the next events, at least one; ``None`` at the end. Raises ConverseError."""
        events = await self._source.receive()
        if events is not None:
            self._ticket.read_usage(events)
        return events

    @property
    def is_spent(self) -> bool:
        """True if the source is exhausted, so that there is nothing to release."""
        return getattr(self._source, "is_spent", False)

    def detach(self, when: Callable[[], bool]) -> None:
        """Let the vendor continue a response in the background."""
        detach(self._source, when)

    async def close(self) -> None:
        """Stop the request."""
        await self._source.close()


def survey_resets(headers: Mapping[str, str]) -> Iterator[float]:
    """Yield the seconds until the reset of each exhausted limit."""
    if "0" not in headers.values():  # most answers report no exhausted limit
        return
    for remaining, reset in _REMAINING:
        if headers.get(remaining) == "0":
            seconds = read_reset(headers.get(reset, ""))
            if seconds is not None:
                yield seconds


def read_reset(text: str) -> float | None:
    """Parse the time of a reset: ``6m0s``, ``120ms``, seconds, or a date.

    Returns:
        The seconds until then, at least 0; ``None`` if the text is invalid.
    """
    text = text.strip()
    pieces = _PIECE.findall(text)
    if pieces and "".join(map("".join, pieces)) == text:  # without gaps
        return sum(float(number) * _UNITS[unit] for number, unit in pieces)
    try:
        # `float` alone would also accept "nan", "inf" and a sign.
        return max(0.0, float(text)) if text.isascii() and text[:1].isdigit() else _until(text)
    except ValueError:
        return _until(text)


def _until(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:  # the time zone is unknown
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
