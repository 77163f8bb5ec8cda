"""``vibe runs list``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import click

from vibe_llms.interfaces.cli.interrupts import run
from vibe_llms.interfaces.cli.options import command, json_option, produce_limit_option
from vibe_llms.interfaces.cli.output import note, write_json, write_moment, write_table
from vibe_llms.interfaces.cli.runs.run_lookup import address_option, open_runs
from vibe_llms.runs.summaries import RunState, RunSummary
from vibe_llms.runs.surveying import STATES


@command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    help="Only runs in this state. Repeatable.",
)
@click.option("--flow", "flows", is_flag=True, help="Only runs of flows.")
@produce_limit_option("runs")
@address_option
@json_option
def list_(states: tuple[str, ...], flows: bool, limit: int, address: str, as_json: bool) -> None:
    """List runs, most recently active first.

    \b
    queued      was requested, but has not started
    working     is running now
    waiting     awaits approvals
    due         is suspended, and has received a new message or approval
    broken_off  was interrupted: its process is gone
    stopped     was stopped by a user
    ended       has answered, reached a limit, or failed
    """
    from vibe_llms.interfaces.cli.runs.run_lookup import compose_run_command, export_summary

    chosen = cast("tuple[RunState, ...]", states) or STATES
    rows = run(_survey(address, chosen, limit, flows=flows))
    if as_json:
        write_json([export_summary(each) for each in rows])
        return
    if not rows:
        note("No such run." if states or flows else "There are no runs yet.")
    write_table(
        (
            (
                each.id,
                each.label,
                write_moment(each.updated),
                each.model,
                each.title,
            )
            for each in rows
        ),
        headers=("id", "state", "last event", "model", "name or first words"),
        styles=("cyan", "", "dim", "dim"),
    )
    broken = [each for each in rows if each.state == "broken_off"]
    if broken:
        command = compose_run_command("resume", broken[0], address)
        note(f"Resume an interrupted run: {command}")


async def _survey(
    address: str, states: Sequence[RunState], limit: int, *, flows: bool
) -> Sequence[RunSummary]:
    from vibe_llms.runs.filtering import RunFilter

    async with open_runs(address) as runs:
        wanted = RunFilter(kind="flow" if flows else "")
        return await runs.survey(states=states, limit=limit, wanted=wanted)
