"""``vibe runs send``, ``stop`` and ``detach``: letters to a run."""

from __future__ import annotations

import sys

import click

from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import note, repair, write
from vibe_llms.interfaces.cli.runs.naming import (
    address_option,
    advise_to_resume,
    find_run,
    open_runs,
    run_argument,
)

_LATER = "It is kept for the run, which hears of it between two steps."


@command("send")
@run_argument
@click.argument("text")
@address_option
async def send(word: str, text: str, address: str) -> None:
    """Say TEXT to RUN: the model hears it when it is asked next, and no call is owed a result.

    A run that waits for approvals goes on waiting. In a flow the visit hears it that asks a model.
    """
    from vibe_llms.messages.canisters import UserCanister

    if not text.strip():
        raise click.UsageError("There is nothing to say: TEXT is empty.")
    async with open_runs(address) as runs:
        before = await find_run(runs, word)
        await runs.send(before.id, UserCanister(repair(text)))
        after = await runs.find(before.id)
    if before.state == "working":
        note(_LATER)
        return
    write("Sent.")
    sys.stdout.flush()  # before what is said of it
    if after.state != "waiting":
        note(advise_to_resume(after, address))


@command("stop")
@run_argument
@click.option("--reason", default="", help="Why, for those who look at the run.")
@address_option
async def stop(word: str, reason: str, address: str) -> None:
    """End RUN where it is; what has arrived stays, and `vibe runs resume` goes on with it.

    It hears of it between two steps, also where it works in another process.
    """
    async with open_runs(address) as runs:
        before = await find_run(runs, word)
        if before.state in ("ended", "stopped") and not before.starts:
            note("It has come to rest already.")
            return
        await runs.stop(before.id, reason=repair(reason))
        after = await runs.find(before.id)
    if before.state == "broken_off":
        write("It had broken off, and is stopped.")
        note(advise_to_resume(after, address))
    elif after.state not in ("stopped", "ended"):
        note(_LATER)
    elif after.starts:
        write("It has heard of it, and stops.")
    else:
        write("It had come to its end." if after.state == "ended" else "It is stopped.")


@command("detach")
@run_argument
@address_option
async def detach(word: str, address: str) -> None:
    """Let RUN go on without watchers, which was begun so that it ends with them."""
    async with open_runs(address) as runs:
        before = await find_run(runs, word)
        if before.is_attached:
            await runs.detach(before.id)
    if before.is_attached:
        write("It goes on without watchers.")
    else:
        note("It was not begun attached, and ends with nobody.")
