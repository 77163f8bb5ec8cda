"""Program whose processes die while they perform a batch: ``URL FOLDER before|after``.

For each event of a run in turn, start a batch of one input. The first process kills itself before,
or after, it writes that event. The next process continues the batch, and answers doubtful calls by
what has happened. Print how many processes died.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that `support` can be imported

from support.batches.vendor_batch_runner import install_kill, perform_in_processes
from support.runs.acting import invoke, say
from support.runs.scripting import write_script
from vibe_llms.agents.batches import open_batches
from vibe_llms.agents.durable.runner import DurableRunner
from vibe_llms.agents.runners import choose_store
from vibe_llms.application import Application
from vibe_llms.batches.channel import BatchChannel
from vibe_llms.conversations.run_logs import claims, database_log
from vibe_llms.instruments.engines import Engine
from vibe_llms.invocables import produce_invoker
from vibe_llms.invocables.approvals import allow, deny
from vibe_llms.invocables.ensembles import FunctionsEnsemble
from vibe_llms.runs.local import LocalRunContext
from vibe_llms.runs.waiting import answer, survey_waiting


async def perform(url: str, folder: Path, key: str) -> None:
    """Perform a batch to its end, or die."""
    payments = folder / f"{key}.paid"

    def look(where: str) -> str:
        """Look."""
        return f"seen: {where}"

    def pay() -> str:
        """Pay."""
        with payments.open("a") as file:
            file.write("paid\n")
        return "paid"

    async def produce(_: Any = ()) -> list[Any]:
        tools = [produce_invoker(look, effect="pure"), produce_invoker(pay, effect="once")]
        return [FunctionsEnsemble("any", tools)]

    application = Application.load()
    store = choose_store(url, application)
    async with open_batches(url, application=application, produce_tools=produce) as runner:
        engine = Engine(f"scripted:{folder}/script.toml", await produce(), application=application)
        batch = BatchChannel(engine, runner=runner, key=key, retry_failed=True)
        while (report := await batch.collect([key])).failures:
            (failure,) = report.failures
            assert "awaits approval" in str(failure.error), failure.error
            for each in await asyncio.to_thread(survey_waiting, store):
                decision = deny(each.request, "paid") if payments.exists() else allow(each.request)
                await asyncio.to_thread(answer, store, each.conversation_id, decision, key=each.key)
        assert report.values == ("Done.",), report
    assert payments.read_text() == "paid\n"
    assert not list(store.survey())


def main() -> None:
    """Kill a process at each event in turn."""
    url, folder, moment = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    for module in (claims, database_log):  # so that claims of dead processes expire soon
        module.LEASE_SECONDS = 1.0  # type: ignore[attr-defined]
    assert DurableRunner.__init__.__kwdefaults__ is not None
    DurableRunner.__init__.__kwdefaults__["lease_seconds"] = 0.5
    turns = [[invoke("look", where="here")], [invoke("pay")], [say("Done.")]]
    write_script(folder, *({"contents": turn} for turn in turns))
    import dbos  # noqa: F401  # before the fork, for speed

    event = 0
    deaths = 1
    while deaths:
        event += 1
        arrange = partial(install_kill, LocalRunContext, "emit", moment == "after", event)
        deaths = perform_in_processes(
            arrange, partial(perform, url, folder, f"{moment}-{event}"), 1
        )
    print(event - 1)


if __name__ == "__main__":
    main()
