"""Hosts the runs of a store until it is killed: started by the test beside it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # as the tests themselves have it

from support.runs.hosted import Premises
from vibe_llms.agents.runners import LOCAL
from vibe_llms.conversations.stores.postgresql.store import PostgresqlStore
from vibe_llms.invocables import produce_invoker


async def main(folder: Path, runner: str = LOCAL) -> None:
    """Performs what is asked for."""

    async def note(number: int) -> str:
        """Notes."""
        with (folder / "noted").open("a") as file:
            file.write(f"{number}\n")
        await asyncio.sleep(0.02)
        return f"noted {number}"

    def pay() -> str:
        """Pays, and takes its host with it the first time."""
        with (folder / "paid").open("a") as file:
            file.write("paid\n")
        if (folder / "paid").read_text() == "paid\n":
            os.kill(os.getpid(), signal.SIGKILL)
        return "paid"

    tools = [produce_invoker(note, effect="pure"), produce_invoker(pay, effect="once")]
    shared = PostgresqlStore(runner) if runner.startswith("postgresql") else None
    async with Premises(folder, tools, runner=runner, shared=shared):
        await asyncio.sleep(3600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
