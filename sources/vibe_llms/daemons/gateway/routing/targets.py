"""A target as it stands: whether it may be asked now, and who is being answered by it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

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
class Placement:
    """A target as the file has it.

    Attributes:
        owner: The name of the table that it stands in.
        settings: Its own.
        provider: Of its model.
        strict, seconds, circuit, passthrough: Of the table, where it does not say itself.
    """

    owner: str
    settings: TargetSettings
    provider: str
    strict: bool
    seconds: float | None
    circuit: CircuitSettings | None
    passthrough: tuple[str, ...]


class Target:
    """What is known of a target while the gateway runs; it outlives a new file.

    Attributes:
        placement: By the file that is in force.
    """

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._circuit = Circuit()
        self._held_until = 0.0
        self._places = Admission(_limit(placement.settings))

    @property
    def is_free(self) -> bool:
        """Whether a request would be answered at once."""
        bound = self.placement.settings.concurrency
        return bound is None or (self._places.taken < bound and not self._places.waiting)

    def adopt(self, placement: Placement) -> None:
        """Lets what a new file says hold from now on."""
        if placement.circuit != self.placement.circuit:
            self._circuit = Circuit()
        self.placement = placement
        self._places.adopt(_limit(placement.settings))

    def find_hold(self, now: float) -> float:
        """Returns how long its vendor wants no more requests, in seconds."""
        return max(0.0, self._held_until - now)

    def find_wait(self, now: float) -> float:
        """Returns how long it is let alone because it fails, in seconds."""
        settings = self.placement.circuit
        return 0.0 if settings is None else self._circuit.find_wait(settings, now)

    def hold(self, until: float) -> None:
        """Passes it over until then, because its vendor said so."""
        self._held_until = max(self._held_until, until)

    async def enter(self) -> None:
        """Takes a place, waiting where none is free. Raises LimitError."""
        await self._places.take()

    def leave(self) -> None:
        """Gives the place back."""
        self._places.give()

    def begin(self) -> bool:
        """Is told that a request goes to it. Returns whether it is a probe, for :meth:`end`."""
        is_probe = self._circuit.opened is not None
        self._circuit = self._circuit.begin()
        return is_probe

    def end(self, now: float, has_failed: bool | None, *, is_probe: bool) -> None:
        """Is told that the request is over; see :meth:`.Circuit.end`."""
        if (settings := self.placement.circuit) is not None:
            self._circuit = self._circuit.end(settings, now, has_failed, is_probe=is_probe)


@frozen(kw_only=True)
class TargetPlan:
    """Targets for one request.

    Attributes:
        targets: In the order in which to try them.
        clock: For circuits, holds and durations.
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
) -> list[list[Placement]]:
    """Returns the targets of a model, and then those of each of its fallbacks, in their order."""
    return [
        [_place(models[owner], owner, target, find_provider) for target in group]
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


def _place(
    model: ModelSettings,
    owner: str,
    settings: TargetSettings,
    find_provider: Callable[[str], str],
) -> Placement:
    return Placement(
        owner=owner,
        settings=settings,
        provider=find_provider(settings.model),
        strict=model.strict,
        seconds=model.seconds if settings.seconds is None else settings.seconds,
        circuit=model.circuit,
        passthrough=model.passthrough if settings.passthrough is None else settings.passthrough,
    )


def order_targets(groups: list[list[Target]], draw: Callable[[], float]) -> list[Target]:
    """Returns in which order targets are to be asked.

    By weight and chance within each group; of these, who would answer at once comes first.
    """
    planned: list[Target] = []
    for group in groups:
        order = order_by_weight([each.placement.settings.weight for each in group], draw)
        ordered = [group[place] for place in order]
        planned += sorted(ordered, key=lambda target: not target.is_free)
    return planned
