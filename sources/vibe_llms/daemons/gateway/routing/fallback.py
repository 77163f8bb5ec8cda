"""Fallback chain: ask one target after the other until one answers."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

from vibe_llms.daemons.asgi import drop_frames
from vibe_llms.daemons.gateway.answer_cache import AnswerRecorder
from vibe_llms.daemons.gateway.calls import GatewayCall
from vibe_llms.daemons.gateway.loss_headers import write_losses
from vibe_llms.daemons.gateway.routing.gates import FirstByteGate
from vibe_llms.daemons.gateway.routing.outcomes import (
    ErrorVerdict,
    UpstreamErrorResponse,
    judge,
    read_error_response,
)
from vibe_llms.daemons.gateway.routing.signatures import (
    SignatureReader,
    find_provider,
    find_signatures,
)
from vibe_llms.daemons.gateway.routing.targets import Target, TargetPlan
from vibe_llms.daemons.gateway.upstreams import (
    Upstream,
    can_pass_through,
    ensure_unguarded,
    is_remote,
)
from vibe_llms.daemons.records import CallRecord, UpstreamAttempt
from vibe_llms.exceptions import (
    AccessError,
    ConverseError,
    LimitError,
    ProviderError,
    ProviderFault,
    RequestError,
    Stage,
    TransportTimeoutError,
)
from vibe_llms.providers.rates import survey_resets
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.remote_models import RemoteModel

ATTEMPTS_HEADER: Final = "x-vibe-attempts"
_QUEUE_SECONDS: Final = 1.0
"""``retry-after`` for a full queue, which may have room at any time."""


_Failure: TypeAlias = tuple[ConverseError, UpstreamErrorResponse | None]
"""The error, and the upstream's error response if it is in the client's protocol."""

_Reached: TypeAlias = tuple[Target, Upstream | ConverseError]
"""A target, with its model, or the error of loading the model."""

_LOGGER: Final = logging.getLogger("vibe_llms.daemons.gateway")


class FallbackChain:
    """The attempts of one request.

    Args:
        call: The request. Each attempt is a copy, at the stages that follow.
        plan: The targets, in order.
    """

    def __init__(self, call: GatewayCall, plan: TargetPlan) -> None:
        self._call, self._plan = call, plan
        self._clock = plan.clock
        self._attempts: list[UpstreamAttempt] = []
        self._waits: list[tuple[float, bool]] = []  # seconds, and whether for a rate limit
        self._last: _Failure | None = None
        self._must_stop = False  # the next targets would fail as well
        self._overflowed_window: float | None = None  # largest window that was too small, in tokens
        self._signatures: list[bytes] = []
        self._is_foreign = False  # the provider of the signatures is unknown

    async def run(self) -> None:
        """Ask the targets in order until one has answered the client.

        Raises:
            ConverseError: No target could answer.
        """
        reached = [(target, await self._reach(target)) for target in self._plan.targets]
        is_answered = False
        for target, upstream in self._order_by_origin(reached):
            if isinstance(upstream, ConverseError):
                self._last = upstream, None
                word = upstream.WORD
                address = target.configured.settings.model
                self._attempts.append(UpstreamAttempt(address=address, error=word, detail=word))
                _LOGGER.warning("Cannot ask %s: %s", address, upstream)
            else:
                is_answered = await self._try(target, upstream)
            if is_answered or self._must_stop:
                break
        if not is_answered:
            await self._give_up()

    async def _reach(self, target: Target) -> Upstream | ConverseError:
        configured = target.configured
        try:
            upstream = await self._call.gateway.upstreams.reach(
                configured.settings.model, strict=configured.strict, genus=self._call.face.genus
            )
            if self._call.face.is_path:
                _ensure_paths(upstream)
            return upstream
        except ConverseError as error:
            return error

    def _order_by_origin(self, reached: list[_Reached]) -> list[_Reached]:
        """Return the targets that accept the signatures in the request, the most likely first."""
        if self._plan.signatures is None:
            return reached
        body = self._call.request.body
        if not (signatures := find_signatures(body)):
            provider = find_provider(body)
            return sorted(reached, key=lambda pair: pair[0].configured.provider != provider)
        self._signatures = signatures
        origin = self._plan.signatures.find_origin(signatures)
        matching = [pair for pair in reached if pair[0].configured.provider == origin]
        if matching:
            return matching
        # Of unknown origin. Only targets of the client's protocol can have signed it.
        self._is_foreign = True
        protocol = self._call.face.dialect.PROTOCOL
        return sorted(reached, key=lambda pair: not _uses_protocol(pair[1], protocol))

    async def _try(self, target: Target, upstream: Upstream) -> bool:
        """Ask a target unless it is unavailable; return whether it has answered the client."""
        too_small = self._overflowed_window
        if too_small is not None and _find_window(upstream) <= too_small:
            return False
        if self._is_unavailable(target, upstream):
            return False
        try:
            await target.enter()
        except LimitError:
            detail = f"The queue of {upstream.address} is full, or its queue_seconds have passed."
            self._skip(upstream, "queue", detail, _QUEUE_SECONDS)
            return False
        try:
            # The target may have failed while this request was queued.
            if self._is_unavailable(target, upstream):
                return False
            return await self._ask(target, upstream)
        finally:
            target.leave()

    def _is_unavailable(self, target: Target, upstream: Upstream) -> bool:
        now, address = self._clock.read(), upstream.address
        client = upstream.model.client if is_remote(upstream.model) else None
        client_hold = client.limiter.hold_seconds if isinstance(client, RemoteClient) else 0.0
        if hold := max(target.find_hold(now), client_hold):
            detail = f"{address} is rate limited for {hold:.3g} seconds."
            self._skip(upstream, "rate-limited", detail, hold, is_rate_limit=True)
            return True
        if wait := target.find_wait(now):
            detail = f"The circuit of {address} is open for {wait:.3g} seconds."
            self._skip(upstream, "circuit", detail, wait)
            return True
        return False

    def _skip(
        self,
        upstream: Upstream,
        word: str,
        detail: str,
        seconds: float,
        *,
        is_rate_limit: bool = False,
    ) -> None:
        """Record that a target is skipped, and for how long it is unavailable."""
        self._waits.append((seconds, is_rate_limit))
        self._attempts.append(UpstreamAttempt(address=upstream.address, error=word, detail=detail))

    async def _ask(self, target: Target, upstream: Upstream) -> bool:
        started, is_probe = self._clock.read(), target.begin()
        has_failed: bool | None = None
        try:
            failure = await self._perform(target, upstream, started)
            if failure is None:
                has_failed = bool(self._call.record.error)
                return True
            verdict = judge(failure[0], is_foreign=self._is_foreign)
            has_failed = verdict.has_failed
            self._record_failure(target, upstream, failure, verdict, started)
            return False
        except ConverseError as error:  # after the first byte, or the client's budget is spent
            has_failed = None if isinstance(error, AccessError) else judge(error).has_failed
            raise
        finally:
            target.end(self._clock.read(), has_failed, is_probe=is_probe)

    async def _perform(self, target: Target, upstream: Upstream, started: float) -> _Failure | None:
        """Perform the following stages for an upstream; return an error before the first byte."""
        call, seconds = self._call, target.configured.seconds
        _clear(call.record)
        reader = self._produce_reader(target)
        on_open = partial(self._open, target, upstream, started)
        try:
            async with asyncio.timeout(seconds) as limit:
                gate = FirstByteGate(
                    call.http, partial(on_open, limit), _join(call.recorder, reader)
                )
                attempt = call.fork(call.http.divert(gate.send))
                attempt.choose(upstream)
                await attempt.proceed()
        except TimeoutError:
            if not limit.expired():
                raise
            return _produce_timeout(upstream, seconds or 0), None
        except UpstreamErrorResponse as response:
            provider = target.configured.provider
            error = read_error_response(response, call.face.dialect, provider, upstream.name)
            return error, response
        except ConverseError as error:
            if gate.is_open or isinstance(error, AccessError):
                raise
            drop_frames(error)  # the error is stored while the next targets are asked
            return error, None
        if reader is not None:
            reader.finish()
        return None

    def _open(
        self,
        target: Target,
        upstream: Upstream,
        started: float,
        limit: asyncio.Timeout,
        status: int,
        headers: Mapping[str, str],
    ) -> None:
        """Commit to this target: the client is about to receive its first byte."""
        limit.reschedule(None)
        now = self._clock.read()
        for seconds in survey_resets(headers):
            target.hold(now + seconds)
        self._attempts.append(UpstreamAttempt(address=upstream.address, seconds=now - started))
        self._report_attempts()
        if self._call.recorder is not None:
            self._call.recorder.begin(status, headers)
        if self._plan.signatures is not None:
            for signature in self._signatures:  # the target has accepted them
                self._plan.signatures.add(signature, target.configured.provider)

    def _record_failure(
        self,
        target: Target,
        upstream: Upstream,
        failure: _Failure,
        verdict: ErrorVerdict,
        started: float,
    ) -> None:
        """Record a failed attempt, and its consequences for this and the next targets."""
        error, now = failure[0], self._clock.read()
        if verdict.hold_seconds:
            target.hold(now + verdict.hold_seconds)
        if verdict.is_overflow:
            window = _find_window(upstream, unknown=0)
            self._overflowed_window = max(self._overflowed_window or 0, window)
        attempt = UpstreamAttempt(
            address=upstream.address,
            error=error.WORD,
            detail=_describe(error),
            seconds=now - started,
            may_be_billed=verdict.may_be_billed,
        )
        self._attempts.append(attempt)
        target.failure = now, attempt.detail
        self._last = failure
        self._must_stop = not verdict.tries_next
        level = logging.INFO if self._must_stop else logging.WARNING
        _LOGGER.log(level, "request %s: %s", self._call.http.request_id, attempt)

    def _produce_reader(self, target: Target) -> SignatureReader | None:
        origins = self._plan.signatures
        if origins is None:
            return None
        return SignatureReader(partial(origins.add, provider=target.configured.provider))

    def _report_attempts(self) -> None:
        http = self._call.http
        self._call.record.attempts = tuple(self._attempts)
        if len(self._attempts) > 1:
            text = write_losses(list(map(str, self._attempts)))
            http.added = {**http.added, ATTEMPTS_HEADER: text}

    async def _give_up(self) -> None:
        """Send the last upstream's error response, or raise its ConverseError."""
        self._report_attempts()
        if self._last is None:
            raise self._refuse()
        error, response = self._last
        if response is None or response.status < 400:
            raise error
        await self._call.http.begin(response.status, response.headers)
        await self._call.http.finish(response.body)

    def _refuse(self) -> ConverseError:
        """Return the error of a request for which no target was available."""
        is_rate_limited = all(is_rate_limit for _, is_rate_limit in self._waits)
        return ProviderError(
            provider="gateway",
            fault=ProviderFault.RATE_LIMITED if is_rate_limited else ProviderFault.OVERLOADED,
            status=429 if is_rate_limited else 503,
            detail=f"No target of {self._call.request.model!r} is available now.",
            remedy="Try again later.",
            retry_after_seconds=min((seconds for seconds, _ in self._waits), default=None),
            should_retry=True,
            stage=Stage.EXECUTE,
        )


def _clear(record: CallRecord) -> None:
    """Reset what an earlier attempt has recorded."""
    record.way, record.status, record.error, record.detail = "", 0, "", ""
    record.usage, record.cents, record.losses, record.sent_bytes = None, None, (), 0
    record.is_estimated = False


def _join(
    recorder: AnswerRecorder | None, reader: SignatureReader | None
) -> Callable[[bytes], None] | None:
    """Return a function that passes each piece of an answer to both; ``None`` without any."""
    feeds = [each.feed for each in (recorder, reader) if each is not None]
    if len(feeds) < 2:
        return feeds[0] if feeds else None

    def feed_all(data: bytes) -> None:
        for feed in feeds:
            feed(data)

    return feed_all


def _uses_protocol(upstream: Upstream | ConverseError, protocol: str) -> bool:
    return not isinstance(upstream, ConverseError) and can_pass_through(upstream.model, protocol)


def _find_window(upstream: Upstream, unknown: float = math.inf) -> float:
    """Return the context window of a model, in tokens."""
    window = upstream.model.descriptor.attributes.access_value("context_window_tokens")
    return window if isinstance(window, int) else unknown


def _describe(error: ConverseError) -> str:
    """Return what the client may learn about an error."""
    if isinstance(error, ProviderError):
        return str(error.fault) if error.status is None else f"{error.status} {error.fault}"
    return error.WORD


def _produce_timeout(upstream: Upstream, seconds: float) -> TransportTimeoutError:
    return TransportTimeoutError(
        detail=f"{upstream.address} did not start to answer within {seconds:g} seconds.",
        remedy="If it needs longer, raise seconds in its table.",
        address=upstream.address,
        phase="first-byte",
        seconds=seconds,
        stage=Stage.SEND,
    )


def _ensure_paths(upstream: Upstream) -> None:
    ensure_unguarded(upstream.model)
    if not isinstance(upstream.model, RemoteModel):
        raise RequestError(
            detail="This model does not run behind a URL, so it has no further paths.",
            remedy="Remove the path from passthrough in its table.",
            stage=Stage.SEND,
        )
