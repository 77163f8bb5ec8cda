"""``vibe runs fork``."""

from __future__ import annotations

from typing import Any

import click

from vibe_llms.interfaces.cli.commands.forking import fork as fork_conversation
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import write, write_json
from vibe_llms.interfaces.cli.runs.run_lookup import (
    address_option,
    export_summary,
    find_run,
    open_run,
    open_runs,
    run_argument,
)


@command("fork")
@run_argument
@click.option(
    "--from",
    "from_index",
    type=click.IntRange(min=0),
    help="Number of canisters to share (default: all).",
)
@click.option("--node", default="", help="With --address: node at which to fork a flow.")
@address_option
@json_option
def fork(word: str, node: str, address: str, **options: Any) -> Any:
    """Start a conversation that shares the history of RUN, and print its id.

    This is the same as `vibe fork`. Fork a flow at a node: `vibe flow fork RUN NODE`. With
    --address, the fork is a new run of the daemon.
    """
    if address:
        return _fork_remotely(word, node, address, options)
    if node:
        raise click.UsageError("--node needs --address; without it, run: vibe flow fork RUN NODE.")
    from vibe_llms.interfaces.cli.program import compose_command

    _, summary = open_run(word)
    if summary.kind == "flow":
        command_line = compose_command("flow", "fork", summary.id, "NODE")
        raise click.UsageError(f"{summary.id} is a flow; fork it at a node: {command_line}")
    return click.get_current_context().invoke(fork_conversation, identity=summary.id, **options)


def _fork_remotely(word: str, node: str, address: str, options: dict[str, Any]) -> None:
    from vibe_llms.interfaces.cli.interrupts import run

    if options["from_index"] is not None:
        raise click.UsageError("--from is for conversations on this machine: remove it.")

    async def work() -> Any:
        async with open_runs(address) as runs:
            original = await find_run(runs, word)
            return await runs.fork(original.id, node=node)

    summary = run(work())
    if options["as_json"]:
        write_json(export_summary(summary))
    else:
        write(summary.id)
