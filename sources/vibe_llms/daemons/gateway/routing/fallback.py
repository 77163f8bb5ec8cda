"""One request on its way along the targets, until one of them answers."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeAlias

import attrs

from vibe_llms.clocks import Clock
from vibe_llms.daemons.asgi import HttpCall, drop_frames
from vibe_llms.daemons.gateway.client_requests import ClientRequest, Face
from vibe_llms.daemons.gateway.gateway import Gateway
from vibe_llms.daemons.gateway.routing.gates import FirstByteGate
from vibe_llms.daemons.gateway.routing.outcomes import ErrorVerdict, Refused, judge, read_refusal
from vibe_llms.daemons.gateway.routing.signatures import (
    SignatureOrigins,
    SignatureReader,
    find_provider,
    find_signatures,
)
from vibe_llms.daemons.gateway.routing.targets import Target
from vibe_llms.daemons.gateway.translating import write_losses
from vibe_llms.daemons.gateway.upstreams import Upstream, can_pass_through
from vibe_llms.daemons.records import CallRecord, UpstreamAttempt
from vibe_llms.exceptions import (
    AccessError,
    ConverseError,
    LimitError,
    ProviderError,
    ProviderFault,
    Stage,
    TransportTimeoutError,
)
from vibe_llms.plugins.specification.daemons import Grant
from vibe_llms.providers.rates import survey_resets
from vibe_llms.providers.remote import RemoteClient
from vibe_llms.values import define

ATTEMPTS_HEADER: Final = "x-vibe-attempts"
_QUEUE_SECONDS: Final = 1.0
"""When a client may come again whom a queue has turned away: a place may be free at any time."""


_Failure: TypeAlias = tuple[ConverseError, Refused | None]
"""What went wrong, and the answer that said it, if one did in the words of the face."""

_LOGGER: Final = logging.getLogger("vibe_llms.daemons.gateway")


def _admit(upstream: Upstream) -> None:
    pass


class AnswerListener(Protocol):
    """Hears an answer while it goes to the client."""

    def begin(self, status: int, headers: Mapping[str, str]) -> None: ...

    def feed(self, data: bytes) -> None: ...


@define(kw_only=True)
class FallbackChain:
    """Asks targets, one after the other.

    Attributes:
        gateway, call, record, face, asked, grant: Of the request.
        clock: Tells when it is.
        seals: Where parts of requests came from; ``None`` where all targets are of one provider.
        check: Refuses an upstream that cannot be asked so.
    """

    gateway: Gateway
    call: HttpCall
    record: CallRecord
    face: Face
    asked: ClientRequest
    grant: Grant | None
    clock: Clock
    seals: SignatureOrigins | None
    check: Callable[[Upstream], None] = _admit
    _attempts: list[UpstreamAttempt] = attrs.field(init=False, factory=list)
    _waits: list[tuple[float, bool]] = attrs.field(init=False, factory=list)
    _last: _Failure | None = attrs.field(init=False, default=None)
    _is_over: bool = attrs.field(init=False, default=False)
    _outgrown: float | None = attrs.field(init=False, default=None)
    _sealed: list[bytes] = attrs.field(init=False, factory=list)
    _is_foreign: bool = attrs.field(init=False, default=False)

    async def run(self, targets: Sequence[Target], listener: AnswerListener | None = None) -> None:
        """Answers as the first of the targets does that answers. Raises ConverseError."""
        reached = [(target, await self._reach(target)) for target in targets]
        for target, upstream in self._choose_home(reached):
            if isinstance(upstream, ConverseError):  # it cannot be asked at all
                self._last = upstream, None
                word = upstream.WORD
                address = target.placement.settings.model
                self._attempts.append(UpstreamAttempt(address=address, error=word, detail=word))
                _LOGGER.warning("%s cannot be asked: %s", address, upstream)
            elif await self._try(target, upstream, listener):
                return
            elif self._is_over:
                break
        await self._give_up()

    async def _reach(self, target: Target) -> Upstream | ConverseError:
        placement = target.placement
        try:
            upstream = await self.gateway.upstreams.reach(
                placement.settings.model, strict=placement.strict
            )
            self.check(upstream)
            return upstream
        except ConverseError as error:
            return error

    def _choose_home(
        self, reached: list[tuple[Target, Upstream | ConverseError]]
    ) -> list[tuple[Target, Upstream | ConverseError]]:
        """Returns those targets that understand all of the request, as far as that is known."""
        if self.seals is None:
            return reached
        if not (sealed := find_signatures(self.asked.body)):
            owner = find_provider(self.asked.body)
            return sorted(reached, key=lambda pair: pair[0].placement.provider != owner)
        self._sealed = sealed
        home = self.seals.find_home(sealed)
        there = [pair for pair in reached if pair[0].placement.provider == home]
        if there:
            return there
        # Nobody knows whose it is. Another protocol's cannot be: that would lose it.
        self._is_foreign = True
        protocol = self.face.dialect.PROTOCOL
        return sorted(reached, key=lambda pair: not _speaks(pair[1], protocol))

    async def _try(
        self, target: Target, upstream: Upstream, listener: AnswerListener | None
    ) -> bool:
        """Asks a target if it may be asked. Returns whether the client has an answer."""
        if self._outgrown is not None and _find_window(upstream) <= self._outgrown:
            return False
        if self._is_let_alone(target, upstream):
            return False
        try:
            await target.enter()
        except LimitError:
            detail = f"{upstream.address} is busy, and its queue is full or does not move."
            self._pass_over(upstream, "queue", detail, _QUEUE_SECONDS, is_haste=False)
            return False
        try:
            # What has failed while this one waited need not be asked again.
            if self._is_let_alone(target, upstream):
                return False
            return await self._ask(target, upstream, listener)
        finally:
            target.leave()

    def _is_let_alone(self, target: Target, upstream: Upstream) -> bool:
        now, address = self.clock.read(), upstream.address
        client = getattr(upstream.model, "client", None)
        told = client.limiter.hold_seconds if isinstance(client, RemoteClient) else 0.0
        if held := max(target.find_hold(now), told):
            detail = f"{address} takes no more requests for {held:.3g} seconds."
            self._pass_over(upstream, "rate-limited", detail, held, is_haste=True)
        elif wait := target.find_wait(now):
            detail = f"{address} has failed and is let alone for {wait:.3g} seconds."
            self._pass_over(upstream, "circuit", detail, wait, is_haste=False)
        return bool(held or target.find_wait(now))

    def _pass_over(
        self, upstream: Upstream, word: str, detail: str, seconds: float, *, is_haste: bool
    ) -> None:
        self._waits.append((seconds, is_haste))
        self._attempts.append(UpstreamAttempt(address=upstream.address, error=word, detail=detail))

    async def _ask(
        self, target: Target, upstream: Upstream, listener: AnswerListener | None
    ) -> bool:
        began, is_probe = self.clock.read(), target.begin()
        has_failed: bool | None = None
        try:
            failure = await self._perform(target, upstream, listener, began)
            if failure is None:
                has_failed = bool(self.record.error)
                return True
            verdict = judge(failure[0], is_foreign=self._is_foreign)
            has_failed = verdict.has_failed
            self._take(target, upstream, failure, verdict, began)
            return False
        except ConverseError as error:  # behind the first byte, or of the client's budget
            has_failed = None if isinstance(error, AccessError) else judge(error).has_failed
            raise
        finally:
            target.end(self.clock.read(), has_failed, is_probe=is_probe)

    async def _perform(
        self, target: Target, upstream: Upstream, listener: AnswerListener | None, began: float
    ) -> _Failure | None:
        """Asks an upstream. Returns what went wrong before the first byte."""
        record, seconds = self.record, target.placement.seconds
        _clear(record)
        reader = self._produce_reader(target)
        opened = partial(self._open, target, upstream, listener, began)
        try:
            async with asyncio.timeout(seconds) as limit:
                gate = FirstByteGate(self.call, partial(opened, limit), _join(listener, reader))
                call = self.call.divert(gate.send)
                await self.gateway.attempt(
                    call, record, self.face, self.asked, upstream, self.grant
                )
        except TimeoutError:
            if not limit.expired():
                raise
            return _produce_timeout(upstream, seconds or 0), None
        except Refused as refused:
            provider = target.placement.provider
            error = read_refusal(refused, self.face.dialect, provider, upstream.name)
            return error, refused
        except ConverseError as error:
            if gate.is_open or isinstance(error, AccessError):
                raise
            drop_frames(error)  # another may answer, and this one is kept until then
            return error, None
        if reader is not None:
            reader.finish()
        return None

    def _open(
        self,
        target: Target,
        upstream: Upstream,
        listener: AnswerListener | None,
        began: float,
        limit: asyncio.Timeout,
        status: int,
        headers: Mapping[str, str],
    ) -> None:
        """Is told that the client is about to have its first byte."""
        limit.reschedule(None)
        now = self.clock.read()
        for seconds in survey_resets(headers):
            target.hold(now + seconds)
        self._attempts.append(UpstreamAttempt(address=upstream.address, seconds=now - began))
        self._tell_attempts()
        if listener is not None:
            listener.begin(status, headers)
        if self.seals is not None:
            for seal in self._sealed:  # it has understood them
                self.seals.keep(seal, target.placement.provider)

    def _take(
        self,
        target: Target,
        upstream: Upstream,
        failure: _Failure,
        verdict: ErrorVerdict,
        began: float,
    ) -> None:
        """Keeps what is to be learnt of an attempt that has failed."""
        error, now = failure[0], self.clock.read()
        if verdict.hold_seconds:
            target.hold(now + verdict.hold_seconds)
        if verdict.is_overflow:
            self._outgrown = max(self._outgrown or 0, _find_window(upstream, unknown=0))
        attempt = UpstreamAttempt(
            address=upstream.address,
            error=error.WORD,
            detail=_describe(error),
            seconds=now - began,
            may_be_billed=verdict.may_be_billed,
        )
        self._attempts.append(attempt)
        self._last = failure
        self._is_over = not verdict.passes_on
        level = logging.INFO if self._is_over else logging.WARNING
        _LOGGER.log(level, "request %s: %s", self.call.request_id, attempt)

    def _produce_reader(self, target: Target) -> SignatureReader | None:
        if self.seals is None:
            return None
        return SignatureReader(partial(self.seals.keep, provider=target.placement.provider))

    def _tell_attempts(self) -> None:
        self.record.attempts = tuple(self._attempts)
        if len(self._attempts) > 1:
            told = write_losses(list(map(str, self._attempts)))
            self.call.added = {**self.call.added, ATTEMPTS_HEADER: told}

    async def _give_up(self) -> None:
        """Tells the client what the last upstream said that was asked. Raises ConverseError."""
        self._tell_attempts()
        if self._last is None:
            raise self._refuse()
        error, refused = self._last
        if refused is None or refused.status < 400:
            raise error
        await self.call.begin(refused.status, refused.headers)
        await self.call.finish(refused.body)

    def _refuse(self) -> ConverseError:
        """Returns the error of a request that went to nobody."""
        is_haste = all(is_haste for _, is_haste in self._waits)
        return ProviderError(
            provider="gateway",
            fault=ProviderFault.RATE_LIMITED if is_haste else ProviderFault.OVERLOADED,
            status=429 if is_haste else 503,
            detail=f"Nobody who answers for {self.asked.model!r} can be asked now.",
            remedy="Ask again later.",
            retry_after_seconds=min((seconds for seconds, _ in self._waits), default=None),
            should_retry=True,
            stage=Stage.EXECUTE,
        )


def _clear(record: CallRecord) -> None:
    """Takes out of a record what an attempt before has left there."""
    record.way, record.status, record.error, record.detail = "", 0, "", ""
    record.usage, record.cents, record.losses, record.sent_bytes = None, None, (), 0
    record.is_estimated = False


def _join(
    listener: AnswerListener | None, reader: SignatureReader | None
) -> Callable[[bytes], None] | None:
    taps = [each.feed for each in (listener, reader) if each is not None]
    if len(taps) < 2:
        return taps[0] if taps else None

    def feed(data: bytes) -> None:
        for tap in taps:
            tap(data)

    return feed


def _speaks(upstream: Upstream | ConverseError, protocol: str) -> bool:
    return not isinstance(upstream, ConverseError) and can_pass_through(upstream.model, protocol)


def _find_window(upstream: Upstream, unknown: float = math.inf) -> float:
    """Returns how many tokens a model takes, as far as it is known."""
    window = upstream.model.descriptor.attributes.access_value("context_window_tokens")
    return window if isinstance(window, int) else unknown


def _describe(error: ConverseError) -> str:
    """Says of an error what its client may be told, in a few words."""
    if isinstance(error, ProviderError):
        return str(error.fault) if error.status is None else f"{error.status} {error.fault}"
    return error.WORD


def _produce_timeout(upstream: Upstream, seconds: float) -> TransportTimeoutError:
    return TransportTimeoutError(
        detail=f"{upstream.address} did not begin to answer within {seconds:g} seconds.",
        remedy="If it only needs longer, raise seconds in its table.",
        address=upstream.address,
        phase="first-byte",
        seconds=seconds,
        stage=Stage.SEND,
    )
