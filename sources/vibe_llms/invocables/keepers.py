"""The task that owns one ensemble from its connecting to its disconnecting."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from vibe_llms.exceptions import EnsembleError
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.invokers import Invoker

_logger = logging.getLogger(__name__)

_PATIENCE_SECONDS: Final = 1.0
"""How much longer than its own limit the task of an ensemble is waited for."""


class Keeper:
    """Connects an ensemble, waits until it is not needed any more, and disconnects it.

    All in one task, because what many libraries open has to be closed by the task that opened
    it. A keeper serves once.

    Args:
        connect_seconds: How long connecting and being surveyed may take, each; more where the
            ensemble has a ``connect_seconds`` of its own that is more.
        disconnect_seconds: How long disconnecting may take.
    """

    def __init__(
        self, ensemble: Ensemble, connect_seconds: float, disconnect_seconds: float
    ) -> None:
        self.ensemble = ensemble
        self.invokers: tuple[Invoker, ...] = ()
        self.failure: EnsembleError | None = None
        self._connect_seconds = max(connect_seconds, getattr(ensemble, "connect_seconds", 0.0))
        self._disconnect_seconds = disconnect_seconds
        self._is_decided = asyncio.Event()
        self._is_done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the ensemble has been connected and is to stay so."""
        is_alive = self._task is not None and not self._task.done()
        return is_alive and self._is_decided.is_set() and not self._is_done.is_set()

    async def start(self) -> None:
        """Begins the task and waits until the ensemble is connected, or ``failure`` says why not.

        Raises:
            EnsembleError: It was begun before.
        """
        if self._task is not None:
            raise EnsembleError(
                ensemble=self.ensemble.name,
                detail=f"The ensemble {self.ensemble.name!r} was connected before.",
                remedy="Make a new registry.",
            )
        name = f"ensemble {self.ensemble.name}"
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=name)
        await self._is_decided.wait()

    async def stop(self) -> None:
        """Lets the task disconnect the ensemble and waits for it, also while being cancelled.

        An ensemble that is still connecting gives up. ``failure`` says what went wrong.
        """
        task = self._task
        if task is None:
            return
        self._is_done.set()
        if not self._is_decided.is_set():
            task.cancel()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._disconnect_seconds + _PATIENCE_SECONDS
        cancellation: asyncio.CancelledError | None = None
        while not task.done() and loop.time() < deadline:
            try:
                await asyncio.wait({task}, timeout=deadline - loop.time())
            except asyncio.CancelledError as error:
                cancellation = error
        if not task.done():
            task.cancel()
            self._fail(TimeoutError(), "be disconnected", self._disconnect_seconds)
        if cancellation is not None:
            raise cancellation

    async def survey(self) -> None:
        """Asks for the invokers anew; they stay as they were where ``failure`` says why."""
        try:
            async with asyncio.timeout(self._connect_seconds):
                self.invokers = tuple(await self.ensemble.survey())
        except Exception as error:
            self._fail(error, "be surveyed", self._connect_seconds)
        else:
            self.failure = None

    async def _keep(self) -> None:
        try:
            try:
                async with asyncio.timeout(self._connect_seconds):
                    await self.ensemble.connect()
            except Exception as error:
                self._fail(error, "be connected", self._connect_seconds)
                return
            try:
                await self.survey()
                if self.failure is None:
                    self._is_decided.set()
                    await self._is_done.wait()
            finally:
                await self._disconnect()
        finally:
            self._is_decided.set()

    async def _disconnect(self) -> None:
        try:
            async with asyncio.timeout(self._disconnect_seconds):
                await self.ensemble.disconnect()
        except Exception as error:
            self._fail(error, "be disconnected", self._disconnect_seconds)

    def _fail(self, error: Exception, verb: str, seconds: float) -> None:
        """Keeps the first failure of the ensemble's present state; the log has all."""
        if isinstance(error, EnsembleError):
            failure = error
        else:
            reason = str(error).rstrip(".") or type(error).__name__
            if isinstance(error, TimeoutError) and not str(error):
                reason = f"it took longer than {seconds:g} seconds"
            name = self.ensemble.name
            failure = EnsembleError(
                ensemble=name, detail=f"The ensemble {name!r} cannot {verb}: {reason}."
            )
            failure.__cause__ = error
        _logger.warning("%s", failure)
        self.failure = self.failure or failure
