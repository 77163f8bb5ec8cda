"""All that a model may invoke: ensembles connected together, each invoker with its own name."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

import attrs

from vibe_llms.exceptions import EnsembleError, RequestError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.child_environment import conceal_keys
from vibe_llms.foundation.portal import finish
from vibe_llms.foundation.suggestions import find_near
from vibe_llms.invocables.connected import ConnectedEnsemble
from vibe_llms.invocables.deduplicators import Deduplicator
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.naming import InvokerOrigin, assign_names
from vibe_llms.messages.descriptions import InvocableDescription

CONNECT_SECONDS: Final = 60.0
DISCONNECT_SECONDS: Final = 10.0


@frozen(kw_only=True, eq=False)
class Registration:
    """An invoker under the name that the model knows it by.

    Attributes:
        ensemble: The name of its ensemble.
        invoker: With the registered name.
        description: What the model is told, made once.
    """

    ensemble: str
    invoker: Invoker
    description: InvocableDescription


class Registry:
    """Ensembles that are connected together, and the invokers they have.

    Use it as an asynchronous context manager. Each ensemble is connected and disconnected by
    one task of its own, which the registry waits for.

    Args:
        ensembles: Each with a name of its own; their order is the order of the invokers.
        tolerant: An ensemble that cannot be connected is set aside, in ``failures``, and the
            others go on without it; else it is an error.
        connect_seconds: How long one ensemble may take to connect and to be surveyed.
        disconnect_seconds: How long one may take to disconnect.

    Raises:
        RequestError: Two ensembles have one name.
    """

    def __init__(
        self,
        ensembles: Iterable[Ensemble],
        *,
        tolerant: bool = False,
        connect_seconds: float = CONNECT_SECONDS,
        disconnect_seconds: float = DISCONNECT_SECONDS,
    ) -> None:
        self.ensembles = tuple(ensembles)
        self.collisions: tuple[str, ...] = ()
        self._tolerant = tolerant
        self._connected = {
            ensemble.name: ConnectedEnsemble(ensemble, connect_seconds, disconnect_seconds)
            for ensemble in self.ensembles
        }
        self._stale: set[str] = set()
        self._listener: Callable[[], object] | None = None
        self._lock = asyncio.Lock()
        self._held: dict[InvokerOrigin, str] = {}
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
                    remedy="Give each its own name.",
                )

    @property
    def failures(self) -> dict[str, EnsembleError]:
        """What is wrong with ensembles at present, by their names."""
        return {
            name: each.failure for name, each in self._connected.items() if each.failure is not None
        }

    async def connect(self) -> None:
        """Connects all ensembles at once and learns what they have.

        From here on others may act in our name, and programs be started: on Linux, the keys in
        our environment are moved to where no other process reads them.

        Raises:
            EnsembleError: Some could not be connected, each explained; no ensemble stays
                connected then. A tolerant registry raises nothing.
        """
        conceal_keys()
        try:
            # Before they are connected, so that no announcement on the way is lost.
            for ensemble in self.ensembles:
                ensemble.listen(functools.partial(self._notice, ensemble.name))
            await asyncio.gather(*(each.start() for each in self._connected.values()))
            failures = self.failures
            if failures and not self._tolerant:
                raise _join_failures(failures)
            self._register()
        except BaseException:
            await self.disconnect()
            raise

    async def disconnect(self) -> None:
        """Disconnects all ensembles, also when some fail to; what failed is in ``failures``.

        Whoever is cancelled meanwhile, or was just before, waits for the end all the same.
        """
        await finish(asyncio.gather(*(each.stop() for each in self._connected.values())))

    def listen(self, listener: Callable[[], object]) -> None:
        """Takes whom to call, in the event loop, when :meth:`refresh` may find a change."""
        self._listener = listener

    def _notice(self, name: str) -> None:
        self._stale.add(name)
        if self._listener is not None:
            self._listener()

    async def refresh(self) -> bool:
        """Asks those ensembles again that have announced a change; costs nothing without one.

        Names stay with what they were given to. An ensemble that cannot be asked keeps the
        invokers it had, and stands in ``failures``.

        Returns:
            Whether the invokers may be others now.
        """
        if not self._stale:
            return False
        async with self._lock:
            stale = [
                name
                for name, each in self._connected.items()
                if name in self._stale and each.is_connected
            ]
            # Before they are asked: what is announced while they answer makes them stale again.
            self._stale.clear()
            await asyncio.gather(*(self._connected[name].survey() for name in stale))
            self._register()
        return bool(stale)

    def _register(self) -> None:
        """Gives every invoker its name."""
        found: dict[InvokerOrigin, Invoker] = {}
        for ensemble, each in self._connected.items():
            # Two of one name within an ensemble are told apart by their order.
            numbers: Counter[str] = Counter()
            for invoker in each.invokers:
                place = InvokerOrigin(ensemble, invoker.name, numbers[invoker.name])
                numbers[invoker.name] += 1
                found[place] = invoker
        names, explanations = assign_names(tuple(found), self._held)
        self.collisions += explanations
        self._held.update(names)
        registrations = (
            _produce_registration(place, names[place], invoker) for place, invoker in found.items()
        )
        self._registrations = {each.invoker.name: each for each in registrations}
        self._descriptions = tuple(each.description for each in self._registrations.values())

    def access(self, name: str) -> Invoker:
        """Returns an invoker by the name that the model knows.

        Raises:
            UnknownNameError: There is none; it names the nearest.
        """
        registration = self._registrations.get(name)
        if registration is not None:
            return registration.invoker
        near = find_near(name, self._registrations)
        known = near or sorted(self._registrations)[:20]
        raise UnknownNameError(kind="invocable", name=name, known=tuple(known))

    def is_pure(self, name: str) -> bool:
        """Tells whether identical calls may share one execution."""
        registration = self._registrations.get(name)
        return registration is not None and registration.invoker.effect is Effect.PURE

    def is_final(self, name: str) -> bool:
        """Tells whether a result of an invocable, if it is no error, ends the run."""
        registration = self._registrations.get(name)
        return registration is not None and registration.invoker.is_final

    def access_deduplicator(self, name: str) -> Deduplicator | None:
        """Returns what tells which results an invocable's results make stale, if anything."""
        registration = self._registrations.get(name)
        return None if registration is None else registration.invoker.deduplicator

    def describe(self) -> tuple[InvocableDescription, ...]:
        """Returns what the model is told, in an order that stays."""
        return self._descriptions

    def survey(self) -> Sequence[Registration]:
        """Returns all invokers, in the same order."""
        return tuple(self._registrations.values())

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *details: object) -> None:
        await self.disconnect()


def _produce_registration(place: InvokerOrigin, name: str, invoker: Invoker) -> Registration:
    named = invoker if invoker.name == name else attrs.evolve(invoker, name=name)
    return Registration(
        ensemble=place.ensemble,
        invoker=named,
        description=named.describe(),
    )


def _join_failures(failures: dict[str, EnsembleError]) -> EnsembleError:
    """Makes one error of several, each explained."""
    first = next(iter(failures.values()))
    if len(failures) == 1:
        return first
    joined = EnsembleError(
        ensemble=", ".join(failures), detail=" ".join(map(str, failures.values()))
    )
    joined.__cause__ = first
    return joined
