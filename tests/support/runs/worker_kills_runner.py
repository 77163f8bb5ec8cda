"""Program whose processes die during runs: ``URL FOLDER before|after``.

For each event of a run in turn, start a run in a process that kills itself before, or after, it
writes that event. The next process continues the run, and answers doubtful calls by what has
happened. Print how many processes died.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that `support` can be imported

from support.batches.vendor_batch_runner import install_kill, perform_in_processes
from support.runs.hosted import FAST
from vibe_llms.agents.durable.runner import DurableRunner
from vibe_llms.agents.run_specs import RunSpec
from vibe_llms.agents.runners import LOCAL, open_runner
from vibe_llms.conversations.run_logs import claims, database_log
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow, deny
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.runs.local import LocalRunContext
from vibe_llms.runs.summaries import RunState

LEASE_SECONDS = 0.3
PAUSE_STATES: tuple[RunState, ...] = ("ended", "waiting")


async def perform(url: str, folder: Path, key: str) -> None:
    """Perform a run to its end, or die."""
    payments = folder / f"{key}.paid"

    def look(where: str) -> str:
        """Look."""
        return f"seen: {where}"

    def pay() -> str:
        """Pay."""
        with payments.open("a") as file:
            file.write("paid\n")
        return "paid"

    tools = [produce_invoker(look, effect="pure"), produce_invoker(pay, effect="once")]

    async def produce_tools(_: Any) -> list[Any]:
        return tools

    async with open_runner(url, hosting=FAST, produce_tools=produce_tools) as runs:
        started = await runs.start(RunSpec(ensembles=("any",)), [UserCanister(key)], key=key)
        while (summary := await runs.wait(started.id, states=PAUSE_STATES)).state == "waiting":
            for each in await runs.survey_approvals(started.id):
                is_done = each.request.in_doubt and payments.exists()
                decision = deny(each.request, "paid") if is_done else allow(each.request)
                await runs.approve(started.id, decision)
            await runs.wait(started.id, states=("ended", "working", "due"))
        assert summary.reason == "answered", summary


def main() -> None:
    """Kill a process at each event in turn."""
    url, folder, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    assert DurableRunner.__init__.__kwdefaults__ is not None
    DurableRunner.__init__.__kwdefaults__["lease_seconds"] = LEASE_SECONDS
    for module in (claims, database_log):  # so that claims of dead processes expire soon
        module.LEASE_SECONDS = 1.0  # type: ignore[attr-defined]
    if url != LOCAL:
        import dbos  # noqa: F401  # before the fork, for speed
    event = 0
    deaths = 1
    while deaths:
        event += 1
        arrange = partial(install_kill, LocalRunContext, "emit", moment == "after", event)
        run = partial(perform, url, folder, f"{moment}-{event}")
        deaths = perform_in_processes(arrange, run, 1)
    print(event - 1)


if __name__ == "__main__":
    main()
