"""The task that owns one ensemble from its connecting to its disconnecting."""

from __future__ import annotations

import asyncio

from vibe_llms.exceptions import EnsembleError, Stage
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.invokers import Invoker


class Keeper:
    """Connects an ensemble, waits until it is not needed any more, and disconnects it.

    All in one task, because what many libraries open has to be closed by the task that opened
    it. A keeper serves once.

    Args:
        connect_seconds: How long connecting and being surveyed may take, each.
        disconnect_seconds: How long disconnecting may take.
    """

    def __init__(
        self, ensemble: Ensemble, connect_seconds: float, disconnect_seconds: float
    ) -> None:
        self.ensemble = ensemble
        self.failure: EnsembleError | None = None
        self._connect_seconds = connect_seconds
        self._disconnect_seconds = disconnect_seconds
        self._is_decided = asyncio.Event()
        self._is_done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins the task and waits until the ensemble is connected, or failed to; see ``failure``.

        Raises:
            RuntimeError: It was begun before.
        """
        if self._task is not None:
            raise RuntimeError(f"The ensemble {self.ensemble.name!r} was connected before.")
        name = f"ensemble {self.ensemble.name}"
        self._task = asyncio.get_running_loop().create_task(self._keep(), name=name)
        await self._is_decided.wait()

    async def stop(self) -> None:
        """Lets the task disconnect the ensemble and waits for it; see ``failure``.

        An ensemble that is still connecting gives up.
        """
        if self._task is None:
            return
        self._is_done.set()
        if not self._is_decided.is_set():
            self._task.cancel()
        await asyncio.wait({self._task})

    async def survey(self) -> tuple[Invoker, ...]:
        """Asks for the invokers.

        Raises:
            EnsembleError: They cannot be had.
        """
        try:
            async with asyncio.timeout(self._connect_seconds):
                return tuple(await self.ensemble.survey())
        except Exception as error:
            raise self._explain(error, "be surveyed", self._connect_seconds) from error

    async def _keep(self) -> None:
        try:
            async with asyncio.timeout(self._connect_seconds):
                await self.ensemble.connect()
        except Exception as error:
            self.failure = self._explain(error, "be connected", self._connect_seconds)
            self.failure.__cause__ = error
            return
        finally:
            self._is_decided.set()
        try:
            await self._is_done.wait()
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        try:
            async with asyncio.timeout(self._disconnect_seconds):
                await self.ensemble.disconnect()
        except Exception as error:
            self.failure = self._explain(error, "be disconnected", self._disconnect_seconds)
            self.failure.__cause__ = error

    def _explain(self, error: Exception, verb: str, seconds: float) -> EnsembleError:
        if isinstance(error, EnsembleError):
            return error
        reason = str(error) or type(error).__name__
        if isinstance(error, TimeoutError) and not str(error):
            reason = f"it took longer than {seconds:g} seconds"
        return EnsembleError(
            ensemble=self.ensemble.name,
            detail=f"The ensemble {self.ensemble.name!r} cannot {verb}: {reason.rstrip('.')}.",
            stage=Stage.CONNECT,
        )
