"""``vibe runs delete``."""

from __future__ import annotations

from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import write
from vibe_llms.interfaces.cli.runs.run_lookup import (
    address_option,
    find_run,
    open_runs,
    run_argument,
)


@command("delete")
@run_argument
@address_option
async def delete(word: str, address: str) -> None:
    """Delete RUN with the conversations of its visits. Stop an active run first."""
    async with open_runs(address) as runs:
        summary = await find_run(runs, word)
        await runs.delete(summary.id)
    write(f"Deleted: {summary.id}")
