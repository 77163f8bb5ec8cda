"""Program whose processes die during deferred runs: ``PROVIDER URL DEATHS``.

For each point, start a run in processes that kill themselves there, until one receives the answer.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that `support` can be imported

from support.batches.vendor_batch_runner import install_kill, perform_in_processes
from support.batches.vendor_batching import advance_all, produce_application
from vibe_llms.agents.deferred_batches import DeferredBatches
from vibe_llms.agents.deferred_requests import DeferredRequests
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.agents.runners import open_runner
from vibe_llms.batches.vendor_chunks import ChunkLog
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.providers.batching import ModelBatches
from vibe_llms.testing.clocks import HurriedClock

POINTS: dict[str, tuple[type, str, bool]] = {
    "before it is gathered": (DeferredBatches, "put", False),
    "when it is gathered": (DeferredBatches, "put", True),
    "after the intent": (ChunkLog, "intend", True),
    "after submitting": (ModelBatches, "submit", True),
    "after the vendor's name": (ChunkLog, "name", True),
    "before the run is told": (DeferredRequests, "deliver", False),
    "after the run was told": (DeferredRequests, "deliver", True),
    "before it is read": (DeferredBatches, "read", False),
    "after it was read": (DeferredBatches, "read", True),
}


class PatientClock(HurriedClock):
    """A clock whose waits let time pass for the batches of the vendor, another process."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url.partition("/simulate/")[0]

    async def sleep(self, seconds: float) -> None:
        """Advance the time, here and at the vendor."""
        self.now += seconds
        await asyncio.sleep(0.005)
        advance_all(self._url)


async def perform(provider: str, url: str, key: str) -> None:
    """Perform a run to its end, or die."""
    application = produce_application(provider, url, PatientClock(url))
    async with open_runner("local:", application=application) as runs:
        summary = await runs.start(RunSpec(channel="vendor"), [UserCanister(key)], key=key)
        summary = await runs.wait(summary.id)
        assert summary.reason == "answered", summary
    await application.close()


def main() -> None:
    """Kill a run at each point in turn."""
    provider, url, max_deaths = sys.argv[1], sys.argv[2], int(sys.argv[3])
    asyncio.run(perform(provider, url, "whole"))  # imports everything before the forks
    for point in POINTS:
        deaths = perform_in_processes(
            partial(install_kill, *POINTS[point]),
            partial(perform, provider, url, point),
            max_deaths,
        )
        assert deaths, point


if __name__ == "__main__":
    main()
