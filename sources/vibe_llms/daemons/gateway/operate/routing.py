"""Targets of each model, and the states of their circuits in all worker processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from vibe_llms.daemons.gateway.operate.entries import clean
from vibe_llms.daemons.gateway.operate.worker_states import TargetState, WorkerState
from vibe_llms.foundation.attrs_classes import frozen

if TYPE_CHECKING:
    from vibe_llms.daemons.gateway.routing.router import TableRouter
    from vibe_llms.daemons.gateway.routing.targets import Target


@frozen(kw_only=True)
class RoutedTarget:
    """A target of a model.

    Attributes:
        target: The model, as ``provider:name``.
        level: 0 for targets of the model itself, 1 and more for its fallbacks, in order.
        weight: How often it is asked first, relative to the other targets of its level.
        circuit: ``open`` while it is skipped, ``probing`` while one request tests it, ``closed``
            while it is asked, ``none`` if it has no circuit breaker.
        open_workers, workers: Number of worker processes in which it is not closed, and of all.
        open_until: Time until which it is skipped; ``None`` if it is closed.
        held_until: Time until which its vendor accepts no requests; ``None`` if it accepts some.
        failures: Recent failures, which count for the circuit; ``limit`` of them open it.
        limit: Number of failures that open the circuit; ``None`` without one.
        failure, failed_at: The last failure, and its time; empty and ``None`` without any.
        busy, waiting: Requests being answered by it, and in its queue.
        concurrency: Most requests at once in one worker process; ``None`` for any number.
    """

    target: str
    level: int
    weight: int
    circuit: Literal["none", "closed", "open", "probing"]
    open_workers: int
    workers: int
    open_until: datetime | None
    held_until: datetime | None
    failures: int
    limit: int | None
    failure: str
    failed_at: datetime | None
    busy: int
    waiting: int
    concurrency: int | None


@frozen(kw_only=True)
class RoutedModel:
    """A model as clients name it, and its targets in order."""

    name: str
    targets: tuple[RoutedTarget, ...]


def survey_targets(
    router: TableRouter | None, find_hold: Callable[[str], float], now: float
) -> dict[str, list[TargetState]]:
    """Return the states of this process's targets, by model.

    Args:
        router: The tables; ``None`` without any.
        find_hold: Returns the seconds until a model's vendor accepts requests again.
        now: Seconds since 1970.
    """
    if router is None:
        return {}
    offset = now - router.clock.read()
    return {
        name: [
            _describe_state(target, find_hold, offset, now)
            for group in route.groups
            for target in group
        ]
        for name, route in router.routes.items()
    }


def _describe_state(
    target: Target, find_hold: Callable[[str], float], offset: float, now: float
) -> TargetState:
    status = target.describe(now - offset)

    def place(seconds: float) -> float:
        return round(now + seconds, 1) if seconds else 0.0

    failure = status.failure
    address = target.configured.settings.model
    return TargetState(
        circuit=status.circuit,
        failures=status.failures,
        open_until=place(status.open_seconds),
        held_until=place(max(status.hold_seconds, find_hold(address))),
        busy=status.busy,
        waiting=status.waiting,
        failure="" if failure is None else clean(failure[1]),
        failed_at=0.0 if failure is None else round(offset + failure[0], 1),
    )


def compose_models(
    router: TableRouter | None, states: Sequence[WorkerState]
) -> tuple[RoutedModel, ...]:
    """Return the models of the tables with the states of their targets.

    Args:
        states: States of the worker processes.
    """
    if router is None:
        return ()
    models = []
    for name, route in router.routes.items():
        targets = [(level, each) for level, group in enumerate(route.groups) for each in group]
        rows = []
        for index, (level, target) in enumerate(targets):
            # A process that has not read the changed file yet may have fewer targets.
            found = [
                state.targets[name][index]
                for state in states
                if len(state.targets.get(name, ())) == len(targets)
            ]
            rows.append(_compose_target(target, level, found))
        models.append(RoutedModel(name=name, targets=tuple(rows)))
    return tuple(models)


def _compose_target(target: Target, level: int, states: Sequence[TargetState]) -> RoutedTarget:
    configured = target.configured
    settings, circuit = configured.settings, configured.circuit
    found = {state.circuit for state in states}
    last = max(states, key=lambda state: state.failed_at, default=TargetState())
    return RoutedTarget(
        target=settings.model,
        level=level,
        weight=settings.weight,
        circuit="none" if circuit is None else _find_first(found),
        open_workers=sum(state.circuit in ("open", "probing") for state in states),
        workers=len(states),
        open_until=_write(max((state.open_until for state in states), default=0)),
        held_until=_write(max((state.held_until for state in states), default=0)),
        failures=sum(state.failures for state in states),
        limit=None if circuit is None else circuit.failures,
        failure=last.failure,
        failed_at=_write(last.failed_at),
        busy=sum(state.busy for state in states),
        waiting=sum(state.waiting for state in states),
        concurrency=settings.concurrency,
    )


def _find_first(found: set[str]) -> Literal["closed", "open", "probing"]:
    if "open" in found:
        return "open"
    return "probing" if "probing" in found else "closed"


def _write(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, UTC) if seconds else None
