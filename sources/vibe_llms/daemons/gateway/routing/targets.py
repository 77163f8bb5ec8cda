"""Targets: state of the models behind a name, and the order in which to ask them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from vibe_llms.daemons.admission import Admission, ServiceLimits
from vibe_llms.daemons.gateway.routing.circuits import Circuit, CircuitSettings
from vibe_llms.daemons.gateway.routing.settings import ModelSettings, TargetSettings
from vibe_llms.daemons.gateway.routing.weights import order_by_weight
from vibe_llms.foundation.attrs_classes import frozen

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.answer_cache import ModelCache
    from vibe_llms.daemons.gateway.routing.signatures import SignatureOrigins
    from vibe_llms.foundation.clocks import Clock


@frozen(kw_only=True)
class ConfiguredTarget:
    """A target as configured.

    Attributes:
        owner: Name of its table.
        settings: Its own settings.
        provider: Provider of its model.
        strict, seconds, circuit, passthrough: Settings of the target, or else of the table.
    """

    owner: str
    settings: TargetSettings
    provider: str
    strict: bool
    seconds: float | None
    circuit: CircuitSettings | None
    passthrough: tuple[str, ...]


@frozen(kw_only=True)
class TargetStatus:
    """Availability of a target, for an operator.

    Attributes:
        circuit: ``none`` without a circuit breaker; ``closed``; ``open`` while the target is
            skipped; ``probing`` while one request tests it, or the next one will.
        failures: Failures that count for the circuit while it is closed.
        open_seconds: Seconds for which the circuit stays open.
        hold_seconds: Seconds until its vendor accepts requests again.
        busy, waiting: Requests in its slots, and in its queue.
        failure: The last failure: its time, and the error; ``None`` without any.
    """

    circuit: Literal["none", "closed", "open", "probing"]
    failures: int
    open_seconds: float
    hold_seconds: float
    busy: int
    waiting: int
    failure: tuple[float, str] | None


class Target:
    """State of a target; it survives a reload.

    Attributes:
        configured: The configuration in use.
        failure: The last failure: its time, and the error; ``None`` without any.
    """

    def __init__(self, configured: ConfiguredTarget) -> None:
        self.configured = configured
        self.failure: tuple[float, str] | None = None
        self._circuit = Circuit()
        self._held_until = 0.0
        self._slots = Admission(_limit(configured.settings))

    @property
    def is_free(self) -> bool:
        """True if a request would be answered without waiting."""
        bound = self.configured.settings.concurrency
        return bound is None or (self._slots.taken < bound and not self._slots.waiting)

    def adopt(self, configured: ConfiguredTarget) -> None:
        """Apply a new configuration."""
        if configured.circuit != self.configured.circuit:
            self._circuit = Circuit()
        self.configured = configured
        self._slots.adopt(_limit(configured.settings))

    def find_hold(self, now: float) -> float:
        """Return the seconds until the target's vendor accepts requests again; see :meth:`hold`."""
        return max(0.0, self._held_until - now)

    def find_wait(self, now: float) -> float:
        """Return the seconds for which the target's circuit is open."""
        settings = self.configured.circuit
        return 0.0 if settings is None else self._circuit.find_wait(settings, now)

    def describe(self, now: float) -> TargetStatus:
        """Return the target's availability."""
        settings, circuit = self.configured.circuit, self._circuit
        open_seconds = self.find_wait(now)
        name: Literal["none", "closed", "open", "probing"] = "closed"
        failures = 0
        if settings is None:
            name = "none"
        elif circuit.opened_at is not None:
            name = "open" if open_seconds and not circuit.is_probing else "probing"
        else:
            oldest = now - settings.window_seconds
            failures = sum(time > oldest for time in circuit.failure_times)
        return TargetStatus(
            circuit=name,
            failures=failures,
            open_seconds=open_seconds,
            hold_seconds=self.find_hold(now),
            busy=self._slots.taken,
            waiting=self._slots.waiting,
            failure=self.failure,
        )

    def hold(self, until: float) -> None:
        """Send the target no requests until a time, as the vendor has requested."""
        self._held_until = max(self._held_until, until)

    async def enter(self) -> None:
        """Take a slot for a request; wait if none is free. Raises LimitError."""
        await self._slots.acquire()

    def leave(self) -> None:
        """Release the slot."""
        self._slots.release()

    def begin(self) -> bool:
        """Record that a request is sent; return whether it is a probe, for :meth:`end`."""
        is_probe = self._circuit.opened_at is not None
        self._circuit = self._circuit.begin()
        return is_probe

    def end(self, now: float, has_failed: bool | None, *, is_probe: bool) -> None:
        """Record that the request has ended; see :meth:`.Circuit.end`."""
        if (settings := self.configured.circuit) is not None:
            self._circuit = self._circuit.end(settings, now, has_failed, is_probe=is_probe)


@frozen(kw_only=True)
class TargetPlan:
    """Targets for one request.

    Attributes:
        targets: The targets, in the order in which to try them.
        clock: Time for circuits, rate limits and durations.
        answers: Cache of the model's answers; ``None`` if its table has none.
        signatures: Origins of signatures; ``None`` if all targets belong to one provider.
    """

    targets: Sequence[Target]
    clock: Clock
    answers: ModelCache | None = None
    signatures: SignatureOrigins | None = None


def _limit(settings: TargetSettings) -> ServiceLimits:
    return ServiceLimits(
        requests=settings.concurrency or sys.maxsize,
        waiting_requests=settings.queue,
        waiting_seconds=settings.queue_seconds,
    )


def expand(
    models: Mapping[str, ModelSettings], name: str, find_provider: Callable[[str], str]
) -> list[list[ConfiguredTarget]]:
    """Return the targets of a model, then those of each fallback, in order."""
    return [
        [_configure(models[owner], owner, target, find_provider) for target in group]
        for owner, group in _survey_groups(models, name, set())
    ]


def _survey_groups(
    models: Mapping[str, ModelSettings], name: str, seen: set[str]
) -> list[tuple[str, tuple[TargetSettings, ...]]]:
    seen.add(name)
    groups = [(name, models[name].targets)]
    for target in models[name].fallback:
        if target.model not in models:
            groups.append((name, (target,)))
        elif target.model not in seen:
            groups += _survey_groups(models, target.model, seen)
    return groups


def _configure(
    model: ModelSettings,
    owner: str,
    settings: TargetSettings,
    find_provider: Callable[[str], str],
) -> ConfiguredTarget:
    return ConfiguredTarget(
        owner=owner,
        settings=settings,
        provider=find_provider(settings.model),
        strict=model.strict,
        seconds=model.seconds if settings.seconds is None else settings.seconds,
        circuit=model.circuit,
        passthrough=model.passthrough if settings.passthrough is None else settings.passthrough,
    )


def order_targets(groups: list[list[Target]], draw: Callable[[], float]) -> list[Target]:
    """Return the order in which to ask targets.

    Random by weight within each group; targets with a free slot come first.
    """
    planned: list[Target] = []
    for group in groups:
        weights = [target.configured.settings.weight for target in group]
        ordered = [group[index] for index in order_by_weight(weights, draw)]
        planned += sorted(ordered, key=lambda target: not target.is_free)
    return planned
