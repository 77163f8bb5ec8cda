"""How often requests go to one vendor: no oftener than the user said, and slower when it says so.

All requests of a provider share one pace, whoever sends them: a batch, the runs of an engine, a
chat. So one refusal for haste slows all of them, and not each by itself. Sending again is not
decided here; whoever sends again takes its turn like everybody else.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from vibe_llms.events.stream import StreamEvent, UsageEvent
from vibe_llms.exceptions import ConverseError, ProviderError, ProviderFault
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.providers.streams import EventSource

_HASTE = frozenset({ProviderFault.RATE_LIMITED, ProviderFault.OVERLOADED})

_RECOVERY = 1.05
"""By how much a pace that was slowed down grows again in a second: twice as fast after 14."""

_SLOWEST_SECONDS = 10.0
"""The longest distance between two requests that is set of our own accord."""

_MINUTE = 60.0
_BYTES_A_TOKEN = 4
"""For the estimate of a request that is not sent yet: what it used is put in its place later."""

_REMAINING = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
)
"""Headers by which vendors tell what is left and when it is filled up again, read 2026-11-22:
https://platform.openai.com/docs/guides/rate-limits, which others follow, and
https://docs.anthropic.com/en/api/rate-limits."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


@frozen(kw_only=True)
class Rates:
    """What the user allows; ``None`` is without a bound."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class RateLimiter:
    """When the next request to a vendor may go. Serves any number of event loops and threads.

    Args:
        rates: What the user allows.
        longest_seconds: A vendor that asks to wait longer is not obeyed here: its error tells.
        clock: Tells when it is, and waits.
        obeys: Whether requests wait for what the vendor says; what it says is known in any case.
    """

    def __init__(
        self, rates: Rates, *, longest_seconds: float, clock: Clock, obeys: bool = True
    ) -> None:
        self._rates = rates
        self._longest = longest_seconds
        self._obeys = obeys
        self._clock = clock
        self._lock = threading.Lock()
        self._next = 0.0  # when the next request may go
        self._next_tokens = 0.0  # when the tokens of all earlier requests are accounted for
        self._held = 0.0  # until when the vendor wants nothing
        self._distance = 0.0  # between two requests, as of `_slowed`; 0 unless slowed down
        self._slowed = 0.0
        self._answer_tokens = 0.0  # what answers used lately
        self._second = 0.0
        self._seen = [0, 0]  # how many went in this second, and in the one before

    @classmethod
    def of(cls, limits: Limits, rates: Rates, clock: Clock) -> RateLimiter:
        """Makes one that keeps to the limits ``attempts`` and ``retry_seconds``."""
        # Whoever sends nothing twice shall hear of haste himself, and not wait for others'.
        obeys = limits.attempts > 1
        return cls(rates, longest_seconds=limits.retry_seconds, clock=clock, obeys=obeys)

    @property
    def counts_tokens(self) -> bool:
        """Whether anybody wants to hear what answers used."""
        return self._rates.tokens_per_minute is not None

    def admit(self, tokens: float) -> bool:
        """Lets a request go at once, as most may; tells whether it may.

        Args:
            tokens: For so many it is put down.
        """
        with self._lock:
            now = self._clock.read()
            if now < self._next or now < self._held or now < self._next_tokens:
                return False
            self._reserve(now, tokens)
            self._note(now)
            return True

    async def acquire(self, tokens: float) -> None:
        """Waits for the turn of a request, which is put down for so many tokens."""
        due: float | None = None
        distance = 0.0
        while True:
            with self._lock:
                now = self._clock.read()
                # Held up while it waited: from there again.
                if due is None or (self._obeys and due < self._held):
                    due, distance = self._reserve(now, tokens if due is None else 0.0)
                if due <= now:
                    self._note(now)
                    return
            try:
                await self._clock.sleep(due - now)
            except BaseException:
                self._give_back(distance, tokens)
                raise

    def estimate(self, size_bytes: int) -> float:
        """Estimates what a request with a body of this size will use, its answer included."""
        return size_bytes / _BYTES_A_TOKEN + self._answer_tokens

    def settle(self, expected: float, used: float, answered: float) -> None:
        """Puts what a request used in the place of what had been put down for it.

        Args:
            expected: What had been put down.
            used: All its tokens, by the vendor's account.
            answered: Those of its answer.
        """
        limit = self._rates.tokens_per_minute
        if limit is None:
            return
        with self._lock:
            # It may go back: what was put down and not used is free for others.
            self._next_tokens += (used - expected) * _MINUTE / limit
        self.learn_answer(answered)

    def learn_answer(self, answered: float) -> None:
        """Takes in how many tokens an answer has had, for estimates of others."""
        with self._lock:
            self._answer_tokens += (answered - self._answer_tokens) / 8  # a mean of the last few

    def heed(self, error: ConverseError) -> None:
        """Slows all requests down where a vendor refused one for haste, and is obeyed."""
        if not isinstance(error, ProviderError) or error.fault not in _HASTE:
            return
        with self._lock:
            now = self._clock.read()
            asked = error.retry_after_seconds
            if asked is not None and asked <= self._longest:
                self._hold(now + asked)
            if self._obeys and now - self._slowed >= 1.0:  # refusals of one moment are one refusal
                lately = max(self._seen)
                grown = self._access_distance(now)
                # A request that went alone was not hasty: slowing down would help nobody.
                if lately > 1 or grown:
                    # Half the pace that was refused, or half of that to which it had been slowed.
                    self._distance = min(max(2.0 / max(lately, 1), 2.0 * grown), _SLOWEST_SECONDS)
                    self._slowed = now
                    self._next = max(self._next, now) + self._distance

    def learn(self, headers: Mapping[str, str]) -> None:
        """Knows until when what the vendor says is used up has not been filled up again."""
        for seconds in survey_resets(headers):
            if seconds <= self._longest:
                with self._lock:
                    self._hold(self._clock.read() + seconds)

    @property
    def hold_seconds(self) -> float:
        """So long the vendor wants nothing, by what it has said; 0 where it takes requests."""
        return max(0.0, self._held - self._clock.read()) if self._held else 0.0

    def _hold(self, until: float) -> None:
        self._held = max(self._held, until)
        if self._obeys:
            self._next = max(self._next, self._held)

    def _give_back(self, distance: float, tokens: float) -> None:
        """Lets later requests go sooner: nobody waits for this turn any more."""
        limit = self._rates.tokens_per_minute
        with self._lock:
            self._next -= distance
            if limit is not None:
                self._next_tokens -= tokens * _MINUTE / limit

    def _reserve(self, now: float, tokens: float) -> tuple[float, float]:
        """Returns when a request may go, and how far all later ones are moved behind it."""
        requests, limit = self._rates.requests_per_minute, self._rates.tokens_per_minute
        due = max(now, self._next, self._held if self._obeys else 0.0)
        if limit is not None:
            due = max(due, self._next_tokens)
            self._next_tokens = due + tokens * _MINUTE / limit
        distance = self._access_distance(now) if self._distance else 0.0
        if requests is not None:
            distance = max(distance, _MINUTE / requests)
        self._next = due + distance if distance else self._next
        return due, distance

    def _access_distance(self, now: float) -> float:
        """Returns the distance that a refusal has brought about, as far as it still holds."""
        if not self._distance:
            return 0.0
        distance = self._distance / _RECOVERY ** (now - self._slowed)
        if distance < self._distance / 4:  # twice as fast as before the refusal, without another
            self._distance = 0.0
            return 0.0
        return float(distance)

    def _note(self, now: float) -> None:
        """Counts how many requests go in a second."""
        if now - self._second >= 1.0:
            # The second before counts only where no whole second without any lies between.
            self._seen = [0, self._seen[0] if now - self._second < 2.0 else 0]
            self._second = now
        self._seen[0] += 1


class Ticket:
    """One request at the limiter: it waits until it may go, and settles what it used.

    Args:
        limiter: Of the vendor.
    """

    __slots__ = ("_limiter", "_tokens")

    def __init__(self, limiter: RateLimiter) -> None:
        self._limiter = limiter
        self._tokens = 0.0

    def admit(self, size_bytes: int) -> bool:
        """Lets a request with a body of this size go at once; tells whether it may."""
        if self._limiter.counts_tokens:
            self._tokens = self._limiter.estimate(size_bytes)
        return self._limiter.admit(self._tokens)

    async def take(self, size_bytes: int) -> None:
        """Waits until a request with a body of this size may go."""
        if not self.admit(size_bytes):
            await self._limiter.acquire(self._tokens)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Takes in what the headers of an answer say."""
        self._limiter.learn(headers)

    def heed(self, error: ConverseError) -> None:
        """Takes in what an error says."""
        self._limiter.heed(error)

    def hear(self, events: Sequence[StreamEvent]) -> None:
        """Takes in what events of the answer say of its usage."""
        for event in events:
            # A stream may account several times: each time the difference alone is settled.
            if isinstance(event, UsageEvent):
                answered = event.usage.total_output_tokens or 0
                used = (event.usage.total_input_tokens or 0) + answered
                self._limiter.settle(self._tokens, used, answered)
                self._tokens = used


class SettlingSource:
    """An event source whose usage is told to its ticket."""

    def __init__(self, source: EventSource, ticket: Ticket) -> None:
        self._source = source
        self._ticket = ticket

    async def receive(self) -> Sequence[StreamEvent] | None:
        """Returns the next events, at least one; None at the end. Raises ConverseError."""
        events = await self._source.receive()
        if events is not None:
            self._ticket.hear(events)
        return events

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left to be freed."""
        return getattr(self._source, "is_spent", False)

    async def close(self) -> None:
        """Stops what is under way."""
        await self._source.close()


def survey_resets(headers: Mapping[str, str]) -> Iterator[float]:
    """Yields the seconds until each thing that is used up is filled up again."""
    if "0" not in headers.values():  # as of most answers
        return
    for remaining, reset in _REMAINING:
        if headers.get(remaining) == "0":
            seconds = read_reset(headers.get(reset, ""))
            if seconds is not None:
                yield seconds


def read_reset(text: str) -> float | None:
    """Reads when something is filled up again: ``6m0s``, ``120ms``, seconds, or a moment.

    Returns:
        The seconds until then, at least 0; ``None`` where the text says nothing of the kind.
    """
    text = text.strip()
    pieces = _PIECE.findall(text)
    if pieces and "".join(map("".join, pieces)) == text:  # nothing between them
        return sum(float(number) * _UNITS[unit] for number, unit in pieces)
    try:
        # `float` by itself would take "nan", "inf" and a sign as well.
        return max(0.0, float(text)) if text.isascii() and text[:1].isdigit() else _until(text)
    except ValueError:
        return _until(text)


def _until(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:  # in whose time, nobody can say
        return None
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
