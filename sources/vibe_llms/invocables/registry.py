"""Registry of tools: ensembles connected together, each invoker with a unique name."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Self

import attrs

from vibe_llms.exceptions import EnsembleError, RequestError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.child_environment import conceal_keys
from vibe_llms.foundation.portal import finish
from vibe_llms.foundation.suggestions import find_near
from vibe_llms.invocables.connected import ConnectedEnsemble
from vibe_llms.invocables.deduplicators import Deduplicator
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.invoker_names import InvokerOrigin, assign_names
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.messages.descriptions import InvocableDescription

if TYPE_CHECKING:
    from vibe_llms.guards.arguments import ArgumentGuard

CONNECT_SECONDS: Final = 60.0
DISCONNECT_SECONDS: Final = 10.0


@frozen(kw_only=True, eq=False)
class Registration:
    """An invoker under its name for the model.

    Attributes:
        ensemble: The name of its ensemble.
        invoker: The invoker, with its registered name.
        description: The description for the model, created once.
    """

    ensemble: str
    invoker: Invoker
    description: InvocableDescription


class Registry:
    """Ensembles that are connected together, and their invokers.

    Use it as an asynchronous context manager. Each ensemble is connected and disconnected by a
    separate task, for which the registry waits.

    Args:
        ensembles: Ensembles with unique names; their order is the order of the invokers.
        tolerant: If an ensemble cannot be connected, record the error in ``failures`` and use the
            other ensembles, instead of raising an error.
        guard: Examines the arguments of each call before its execution.
        connect_seconds: Timeout for connecting and surveying one ensemble.
        disconnect_seconds: Timeout for disconnecting one ensemble.

    Raises:
        RequestError: Two ensembles have equal names.
    """

    def __init__(
        self,
        ensembles: Iterable[Ensemble],
        *,
        tolerant: bool = False,
        guard: ArgumentGuard | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        disconnect_seconds: float = DISCONNECT_SECONDS,
    ) -> None:
        self.ensembles = tuple(ensembles)
        self.collisions: tuple[str, ...] = ()
        self._tolerant = tolerant
        self._guard = guard
        self._connected = {
            ensemble.name: ConnectedEnsemble(ensemble, connect_seconds, disconnect_seconds)
            for ensemble in self.ensembles
        }
        self._outdated: set[str] = set()
        self._listener: Callable[[], object] | None = None
        self._lock = asyncio.Lock()
        self._assigned_names: dict[InvokerOrigin, str] = {}
        self._registrations: dict[str, Registration] = {}
        self._descriptions: tuple[InvocableDescription, ...] = ()
        self._ensure_names()

    def _ensure_names(self) -> None:
        names = [ensemble.name for ensemble in self.ensembles]
        for name in names:
            if names.count(name) > 1:
                raise RequestError(
                    path="ensembles",
                    detail=f"Two ensembles are called {name!r}.",
                    remedy=f"Give each its own name: rename [mcp.{name}] if one is an MCP server.",
                )

    @property
    def failures(self) -> dict[str, EnsembleError]:
        """Current failures of ensembles, by their names."""
        return {
            name: each.failure for name, each in self._connected.items() if each.failure is not None
        }

    @property
    def may_grow(self) -> bool:
        """True if more invokers may appear later; see :class:`.Ensemble`."""
        return any(getattr(each, "may_grow", False) for each in self.ensembles)

    def survey_hidden(self) -> frozenset[str]:
        """Return the names of the invokers that a model must search; see :class:`.Ensemble`."""
        tools = (getattr(each, "tools", ()) for each in self.ensembles)
        return frozenset(tool.name for each in tools for tool in each)

    def adopt_guard(self, guard: ArgumentGuard) -> None:
        """Examine the arguments of calls, unless another guard does already."""
        if self._guard is None:
            self._guard = guard
            self._registrations = {
                name: attrs.evolve(each, invoker=attrs.evolve(each.invoker, guard=guard))
                for name, each in self._registrations.items()
            }

    async def connect(self) -> None:
        """Connect all ensembles concurrently and survey them.

        Ensembles may start programs. Therefore, on Linux, the keys in this process's environment
        are first moved to memory that other processes cannot read.

        Raises:
            EnsembleError: Some ensembles could not be connected; the message explains each. No
                ensemble stays connected. A tolerant registry does not raise it.
        """
        conceal_keys()
        try:
            # Listen before connecting, so that no announced change is missed.
            for ensemble in self.ensembles:
                ensemble.listen(functools.partial(self._mark_outdated, ensemble.name))
            await asyncio.gather(*(each.start() for each in self._connected.values()))
            failures = self.failures
            if failures and not self._tolerant:
                raise _join_failures(failures)
            self._register()
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Disconnect all ensembles, even if some fail; the failures are in ``failures``.

        Even a cancelled caller waits until all are disconnected.
        """
        await finish(asyncio.gather(*(each.stop() for each in self._connected.values())))

    def listen(self, listener: Callable[[], object]) -> None:
        """Set the callback, called in the event loop, for changes that :meth:`refresh` may find."""
        self._listener = listener

    def _mark_outdated(self, name: str) -> None:
        self._outdated.add(name)
        if self._listener is not None:
            self._listener()

    async def refresh(self) -> bool:
        """Survey the ensembles that have announced a change; without one, this costs nothing.

        Assigned names never change. An ensemble whose survey fails keeps its invokers, and
        ``failures`` contains the error.

        Returns:
            True if the invokers may have changed.
        """
        if not self._outdated:
            return False
        async with self._lock:
            outdated = [
                name
                for name, each in self._connected.items()
                if name in self._outdated and each.is_connected
            ]
            # Clear before the surveys, because a change announced meanwhile needs another survey.
            self._outdated.clear()
            await asyncio.gather(*(self._connected[name].survey() for name in outdated))
            self._register()
        return bool(outdated)

    def _register(self) -> None:
        """Assign a name to every invoker."""
        invokers: dict[InvokerOrigin, Invoker] = {}
        for ensemble, each in self._connected.items():
            # Invokers with one name within an ensemble are distinguished by their order.
            numbers: Counter[str] = Counter()
            for invoker in each.invokers:
                origin = InvokerOrigin(ensemble, invoker.name, numbers[invoker.name])
                numbers[invoker.name] += 1
                invokers[origin] = invoker
        names, explanations = assign_names(tuple(invokers), self._assigned_names)
        self.collisions += explanations
        self._assigned_names.update(names)
        registrations = (
            _produce_registration(origin, names[origin], invoker, self._guard)
            for origin, invoker in invokers.items()
        )
        self._registrations = {each.invoker.name: each for each in registrations}
        self._descriptions = tuple(each.description for each in self._registrations.values())

    def access(self, name: str) -> Invoker:
        """Return an invoker by its name for the model.

        Raises:
            UnknownNameError: The name is unknown; the message suggests similar names.
        """
        registration = self._registrations.get(name)
        if registration is not None:
            return registration.invoker
        suggestions = find_near(name, self._registrations) or sorted(self._registrations)[:20]
        raise UnknownNameError(kind="invocable", name=name, known=tuple(suggestions))

    def is_pure(self, name: str) -> bool:
        """Return whether identical calls may share one execution."""
        registration = self._registrations.get(name)
        return registration is not None and registration.invoker.effect is Effect.PURE

    def is_final(self, name: str) -> bool:
        """Return whether a successful result of an invocable ends the run."""
        registration = self._registrations.get(name)
        return registration is not None and registration.invoker.is_final

    def access_deduplicator(self, name: str) -> Deduplicator | None:
        """Return the deduplicator of an invocable, or ``None``."""
        registration = self._registrations.get(name)
        return None if registration is None else registration.invoker.deduplicator

    def describe(self) -> tuple[InvocableDescription, ...]:
        """Return the descriptions for the model, in a stable order."""
        return self._descriptions

    def survey(self) -> Sequence[Registration]:
        """Return all invokers, in the order of :meth:`describe`."""
        return tuple(self._registrations.values())

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.disconnect()


class LentEnsemble:
    """Ensemble of the invokers of a connected registry, for use in another registry.

    Args:
        registry: A snapshot is taken: later changes of its ensembles have no effect.
    """

    name: Final = "lent"

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def connect(self) -> None:
        """Do nothing: it is connected."""

    async def disconnect(self) -> None:
        """Do nothing: the owner of the connection disconnects it."""

    async def survey(self) -> Sequence[Invoker]:
        """Return the invokers, with the names that the model knows."""
        return tuple(each.invoker for each in self._registry.survey())

    def listen(self, listener: Callable[[], None]) -> None:
        """Do nothing."""


def _produce_registration(
    origin: InvokerOrigin, name: str, invoker: Invoker, guard: ArgumentGuard | None
) -> Registration:
    named = invoker if invoker.name == name else attrs.evolve(invoker, name=name)
    if guard is not None:
        named = attrs.evolve(named, guard=guard)
    return Registration(
        ensemble=origin.ensemble,
        invoker=named,
        description=named.describe(),
    )


def _join_failures(failures: dict[str, EnsembleError]) -> EnsembleError:
    """Combine several errors into one, each explained."""
    first = next(iter(failures.values()))
    if len(failures) == 1:
        return first
    joined = EnsembleError(
        ensemble=", ".join(failures), detail=" ".join(map(str, failures.values()))
    )
    joined.__cause__ = first
    return joined
