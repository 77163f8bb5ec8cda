"""Program that performs a batch with a tool that pays: ``URL FOLDER TURN``.

In turn 0, it is killed during a payment. In turn 2, it answers that doubtful call, and retries the
failed items. It prints the indices of the results, and the errors of the failures.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

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
from vibe_llms.invocables.approvals import deny
from vibe_llms.invocables.ensembles import FunctionsEnsemble
from vibe_llms.runs.waiting import answer, survey_waiting


def main() -> None:
    """Perform the batch once."""
    url, folder, turn = sys.argv[1:]
    for module in (claims, database_log):  # so that claims of dead processes expire soon
        module.LEASE_SECONDS = 1.0  # type: ignore[attr-defined]
    assert DurableRunner.__init__.__kwdefaults__ is not None
    DurableRunner.__init__.__kwdefaults__["lease_seconds"] = 0.3
    print(json.dumps(asyncio.run(perform(url, Path(folder), int(turn)))))


async def perform(url: str, folder: Path, turn: int) -> list[Any]:
    """Return the indices of the results, and the errors of the failures."""

    def pay(who: str) -> str:
        """Pay."""
        with (folder / "paid").open("a") as file:
            file.write(f"{who}\n")
        if turn == 0 and who == "Q1":
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    async def produce(names: Any) -> list[Any]:
        return [FunctionsEnsemble("money", [produce_invoker(pay, effect="once")])]

    script = write_script(
        folder,
        {"contents": [invoke("pay", who="{input}")]},
        {"contents": [say("Done.")]},
    )
    application = Application.load()
    async with open_batches(url, application=application, produce_tools=produce) as runner:
        if turn == 2:
            store = choose_store(url, application)
            for each in await asyncio.to_thread(survey_waiting, store):
                decision = deny(each.request, "paid")
                await asyncio.to_thread(answer, store, each.conversation_id, decision, key=each.key)
        engine = Engine(f"scripted:{script}", await produce(()), application=application)
        batch = BatchChannel(engine, runner=runner, key="k", concurrency=1, retry_failed=turn == 2)
        report = await batch.collect([f"Q{n}" for n in range(3)])
    errors = {" ".join(str(each.error).split()[3:5]).rstrip(".") for each in report.failures}
    return [[each.index for each in report.results], "".join(errors)]


if __name__ == "__main__":
    main()
