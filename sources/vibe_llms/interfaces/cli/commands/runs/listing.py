"""``vibe runs list``."""

from __future__ import annotations

from itertools import islice
from typing import cast

import click

from vibe_llms.interfaces.cli.access import open_index, open_store
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table
from vibe_llms.runs.summaries import RunState
from vibe_llms.runs.surveying import STATES, survey_runs


@command("list")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    help="Only runs in this state. May be repeated.",
)
@click.option("--flow", "flows", is_flag=True, help="Only runs of flows.")
@click.option("--limit", "-n", default=20, show_default=True, type=click.IntRange(min=1))
@json_option
def list_(states: tuple[str, ...], flows: bool, limit: int, as_json: bool) -> None:
    """List runs, the one in which something happened last first.

    \b
    queued    it was asked for, and nobody has begun
    working   it was begun, and has not come to rest
    waiting   for approvals
    due       it has come to rest, and something was said since
    stopped   by somebody
    ended     it has answered, has reached a limit, or has failed
    """
    from vibe_llms.interfaces.cli.runs.naming import export_summary
    from vibe_llms.interfaces.cli.runs.words import describe_state

    wanted = cast("tuple[RunState, ...]", states) or STATES
    found = survey_runs(open_store(), states=wanted)
    rows = list(islice((each for each in found if not flows or each.kind == "flow"), limit))
    if as_json:
        write_json([export_summary(each) for each in rows])
        return
    words = {}
    if any(not each.name for each in rows):
        words = {row.id: row.first_words for row in open_index().survey(limit=None)}
    if not rows:
        note("There is no such run." if states or flows else "There is no run yet.")
    write_table(
        (
            (
                each.id,
                describe_state(each),
                each.updated.astimezone().strftime("%Y-%m-%d %H:%M"),
                each.model,
                each.name or words.get(each.id, ""),
            )
            for each in rows
        ),
        headers=("id", "state", "last event", "model", "name or first words"),
        styles=("cyan", "", "dim", "dim"),
    )
