"""``vibe runs send``, ``stop`` and ``detach``: messages to a run."""

from __future__ import annotations

import sys

import click

from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import note, repair, write
from vibe_llms.interfaces.cli.runs.run_lookup import (
    address_option,
    advise_to_resume,
    find_run,
    open_runs,
    run_argument,
)

_DELIVERED_LATER = "The run receives it between two steps."


@command("send")
@run_argument
@click.argument("text")
@address_option
async def send(word: str, text: str, address: str) -> None:
    """Send TEXT to RUN; the model reads it at its next request, after pending calls.

    A run that awaits approvals keeps waiting. In a flow, the node that asks a model receives it.
    """
    from vibe_llms.messages.canisters import UserCanister

    if not text.strip():
        raise click.UsageError("TEXT is empty.")
    async with open_runs(address) as runs:
        before = await find_run(runs, word)
        await runs.send(before.id, UserCanister(repair(text)))
        after = await runs.find(before.id)
    if before.state == "working":
        note(_DELIVERED_LATER)
        return
    write("Sent.")
    sys.stdout.flush()  # before messages about it
    if after.state != "waiting":
        note(advise_to_resume(after, address))


@command("stop")
@run_argument
@click.option("--reason", default="", help="Reason, shown with the run.")
@address_option
async def stop(word: str, reason: str, address: str) -> None:
    """Stop RUN. Its messages are kept, and `vibe runs resume` continues it.

    A run in another process stops between two steps.
    """
    async with open_runs(address) as runs:
        before = await find_run(runs, word)
        if before.state in ("ended", "stopped") and not before.starts:
            note("The run is not active.")
            return
        await runs.stop(before.id, reason=repair(reason))
        after = await runs.find(before.id)
    if before.state == "broken_off":
        write("The run was interrupted; it is now stopped.")
        note(advise_to_resume(after, address))
    elif after.state not in ("stopped", "ended"):
        note(_DELIVERED_LATER)
    elif after.starts:
        write("The run received it and stops.")
    else:
        write("The run had already ended." if after.state == "ended" else "It is stopped.")


@command("detach")
@run_argument
@address_option
async def detach(word: str, address: str) -> None:
    """Let RUN continue after its watchers disconnect, which would stop it otherwise."""
    async with open_runs(address) as runs:
        before = await find_run(runs, word)
        if before.is_attached:
            await runs.detach(before.id)
    if before.is_attached:
        write("It continues without watchers.")
    else:
        note("It was not started attached, so it already continues without watchers.")
