"""Works at a batch of an engine that pays: ``URL FOLDER TURN``; in turn 0 it dies as it pays.

In turn 2 it answers what is in doubt as somebody does who looks, and retries. Prints the places of
what was done, and why the rest was not.
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
    """Works at the batch once."""
    url, folder, turn = sys.argv[1:]
    for module in (claims, database_log):  # a claim that nobody gives back runs out
        module.LEASE_SECONDS = 1.0  # type: ignore[attr-defined]
    assert DurableRunner.__init__.__kwdefaults__ is not None
    DurableRunner.__init__.__kwdefaults__["lease_seconds"] = 0.3
    print(json.dumps(asyncio.run(perform(url, Path(folder), int(turn)))))


async def perform(url: str, folder: Path, turn: int) -> list[Any]:
    """Returns the places of what was done, and why the rest was not."""

    def pay(who: str) -> str:
        """Pays."""
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
            for each in await asyncio.to_thread(survey_waiting, store):  # it was paid, as one sees
                given = deny(each.request, "paid")
                await asyncio.to_thread(answer, store, each.conversation_id, given, key=each.key)
        engine = Engine(f"scripted:{script}", await produce(()), application=application)
        batch = BatchChannel(engine, runner=runner, key="k", concurrency=1, retry_failed=turn == 2)
        report = await batch.collect([f"Q{n}" for n in range(3)])
    errors = {" ".join(str(each.error).split()[3:5]).rstrip(".") for each in report.failures}
    return [[each.index for each in report.results], "".join(errors)]


if __name__ == "__main__":
    main()
