"""An ensemble of a registry, while it is connected."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.owners import ConnectionOwner, Disconnection

_logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 1.0
"""Extra time beyond the owner's own timeout."""


class ConnectedEnsemble:
    """Connects an ensemble, surveys it, and disconnects it, with timeouts. Single use.

    Args:
        connect_seconds: Timeout for connecting and for surveying, each; a longer
            ``connect_seconds`` of the ensemble takes precedence.
        disconnect_seconds: Timeout for disconnecting.

    Attributes:
        ending: Set when it must be disconnected.
        failure: Its current failure.
    """

    def __init__(
        self, ensemble: Ensemble, connect_seconds: float, disconnect_seconds: float
    ) -> None:
        self.ensemble = ensemble
        self.invokers: tuple[Invoker, ...] = ()
        self.failure: EnsembleError | None = None
        self.ending = Disconnection()
        self._connect_seconds = max(connect_seconds, getattr(ensemble, "connect_seconds", 0.0))
        self._disconnect_seconds = disconnect_seconds
        self._was_started = False
        self._owner: ConnectionOwner[ConnectedEnsemble] = ConnectionOwner(
            f"ensemble {ensemble.name}", self._open, lambda reason: self._explain(reason, "be used")
        )

    @property
    def is_connected(self) -> bool:
        """True if the ensemble is connected and stays so."""
        return self._owner.is_connected

    async def start(self) -> None:
        """Wait until the ensemble is connected, or ``failure`` has the reason why not.

        Raises:
            EnsembleError: It was started before.
        """
        if self._was_started:
            raise EnsembleError(
                ensemble=self.ensemble.name,
                detail=f"The ensemble {self.ensemble.name!r} was connected before.",
                remedy="Make a new registry.",
            )
        self._was_started = True
        try:
            await self._owner.start()
        except EnsembleError as error:
            self.failure = self.failure or error

    async def stop(self) -> None:
        """Wait until the ensemble is disconnected; ``failure`` has the error, if any.

        An ensemble that is still connecting stops.
        """
        try:
            async with asyncio.timeout(self._disconnect_seconds + _PATIENCE_SECONDS):
                await self._owner.stop()
        except TimeoutError as error:
            _logger.warning("%s", self._fail(error, "be disconnected", self._disconnect_seconds))

    async def survey(self) -> None:
        """Ask for the invokers again; they stay unchanged if ``failure`` is set."""
        failed = await self._survey()
        if failed is not None:
            _logger.warning("%s", failed)

    async def _survey(self) -> EnsembleError | None:
        try:
            async with asyncio.timeout(self._connect_seconds):
                self.invokers = tuple(await self.ensemble.survey())
        except Exception as error:
            return self._fail(error, "be surveyed", self._connect_seconds)
        self.failure = None
        return None

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[ConnectedEnsemble]:
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self.ensemble.connect()
        except Exception as error:
            raise self._fail(error, "be connected", self._connect_seconds) from error
        try:
            failed = await self._survey()
            if failed is not None:
                raise failed
            yield self
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        try:
            async with asyncio.timeout(self._disconnect_seconds):
                await self.ensemble.disconnect()
        except Exception as error:
            _logger.warning("%s", self._fail(error, "be disconnected", self._disconnect_seconds))

    def _fail(self, error: Exception, verb: str, seconds: float) -> EnsembleError:
        """Keep the first failure of the ensemble's current state.

        A failure that reaches no caller is logged, too; a failure to connect is raised.
        """
        reason: Exception | str = error
        if isinstance(error, TimeoutError) and not str(error):
            reason = f"it took longer than {seconds:g} seconds"
        failure = self._explain(reason, verb)
        failure.__cause__ = failure.__cause__ or (error if failure is not error else None)
        # The first one is the most informative: later ones are often its consequences.
        self.failure = self.failure or failure
        return failure

    def _explain(self, reason: Exception | str, verb: str) -> EnsembleError:
        if isinstance(reason, EnsembleError):
            return reason
        said = str(reason).rstrip(".") or type(reason).__name__
        name = self.ensemble.name
        return EnsembleError(ensemble=name, detail=f"The ensemble {name!r} cannot {verb}: {said}.")
