"""Performs runs in workers that die: ``URL FOLDER before|after``; the home is HOME's.

For each event of a run in its turn one is asked for under a key, and whoever performs it kills
itself before, or after, that event is written. The next process takes the run up, and answers
what is in doubt as somebody does who looks. Prints how many died.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # a program of its own finds `support`

from support.batches.vendor_batch_runner import install, outlive
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
RESTS: tuple[RunState, ...] = ("ended", "waiting")


async def perform(url: str, folder: Path, key: str) -> None:
    """Sees a run to its end, or dies."""
    paid = folder / f"{key}.paid"

    def look(where: str) -> str:
        """Looks."""
        return f"seen: {where}"

    def pay() -> str:
        """Pays."""
        with paid.open("a") as file:
            file.write("paid\n")
        return "paid"

    tools = [produce_invoker(look, effect="pure"), produce_invoker(pay, effect="once")]

    async def produce_tools(_: Any) -> list[Any]:
        return tools

    async with open_runner(url, hosting=FAST, produce_tools=produce_tools) as runs:
        asked = await runs.start(RunSpec(ensembles=("any",)), [UserCanister(key)], key=key)
        while (found := await runs.wait(asked.id, states=RESTS)).state == "waiting":
            for each in await runs.survey_approvals(asked.id):
                is_done = each.request.in_doubt and paid.exists()
                given = deny(each.request, "paid") if is_done else allow(each.request)
                await runs.approve(asked.id, given)
            await runs.wait(asked.id, states=("ended", "working", "due"))
        assert found.reason == "answered", found


def main() -> None:
    """Kills a worker at each event in its turn."""
    url, folder, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    assert DurableRunner.__init__.__kwdefaults__ is not None
    DurableRunner.__init__.__kwdefaults__["lease_seconds"] = LEASE_SECONDS
    for module in (claims, database_log):  # a claim that nobody gives back runs out
        module.LEASE_SECONDS = 1.0  # type: ignore[attr-defined]
    if url != LOCAL:
        import dbos  # noqa: F401  # so that no child has to
    event = 0
    died = 1
    while died:
        event += 1
        doom = partial(install, LocalRunContext, "emit", moment == "after", event)
        died = outlive(doom, partial(perform, url, folder, f"{moment}-{event}"), 1)
    print(event - 1)


if __name__ == "__main__":
    main()
