"""Connection of an ensemble: connect, survey and disconnect it, with timeouts."""

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
"""Extra time to disconnect, in which the task that owns the connection can end by its timeout."""


class ConnectedEnsemble:
    """Connects, surveys and disconnects an ensemble, with timeouts; for a single use.

    Args:
        connect_seconds: Timeout for connecting and for surveying, each; a longer
            ``connect_seconds`` of the ensemble takes precedence.
        disconnect_seconds: Timeout for disconnecting.

    Attributes:
        ending: Event that is set when the ensemble must be disconnected.
        failure: The current failure of the ensemble.
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
        """True if the ensemble is connected and not about to be disconnected."""
        return self._owner.is_connected

    async def start(self) -> None:
        """Connect the ensemble; if that fails, ``failure`` has the error.

        Raises:
            EnsembleError: The ensemble was connected before.
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
        """Disconnect the ensemble; if that fails, ``failure`` has the error.

        If it is still connecting, that is cancelled.
        """
        try:
            async with asyncio.timeout(self._disconnect_seconds + _PATIENCE_SECONDS):
                await self._owner.stop()
        except TimeoutError as error:
            _logger.warning("%s", self._fail(error, "be disconnected", self._disconnect_seconds))

    async def survey(self) -> None:
        """Update the invokers; if that fails, keep them and set ``failure``."""
        failure = await self._survey()
        if failure is not None:
            _logger.warning("%s", failure)

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
        except Exception as error:  # not disconnected; see :meth:`.Ensemble.connect`
            raise self._fail(error, "be connected", self._connect_seconds) from error
        try:
            failure = await self._survey()
            if failure is not None:
                raise failure
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
        """Create the error for a failure, and store it unless an earlier error is stored."""
        reason: Exception | str = error
        if isinstance(error, TimeoutError) and not str(error):
            reason = f"it took longer than {seconds:g} seconds"
        failure = self._explain(reason, verb)
        if failure is not error and failure.__cause__ is None:
            failure.__cause__ = error
        # The first failure is the most informative, because it often causes the later ones.
        self.failure = self.failure or failure
        return failure

    def _explain(self, reason: Exception | str, verb: str) -> EnsembleError:
        if isinstance(reason, EnsembleError):
            return reason
        text = str(reason).rstrip(".") or type(reason).__name__
        name = self.ensemble.name
        return EnsembleError(ensemble=name, detail=f"The ensemble {name!r} cannot {verb}: {text}.")
