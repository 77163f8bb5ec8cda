"""``vibe store compact``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.access import load_configuration, open_store
from vibe_llms.interfaces.cli.options import DAYS, command, json_option
from vibe_llms.interfaces.cli.output import note, write, write_json


@command("compact")
@click.option(
    "--older-than",
    "days",
    type=DAYS,
    metavar="DAYS",
    help="Only runs that ended so many days ago; by default the limit `log_days`.",
)
@json_option
def compact(days: float | None, as_json: bool) -> None:
    """Make the logs of runs that have ended shorter, as daemons and workers do by themselves.

    What explains a run stays: what was asked for, which model with what, what it used, what was
    called, who approved, and why it ended. States between, retries, and copies of what is in the
    conversation leave. Numbers of events stay what they were, and `vibe runs replay` and `diff` say
    the same after as before.

    \b
        vibe store compact
        vibe store compact --older-than 7
    """
    from vibe_llms.runs.compacting import compact_logs, find_moment

    if days is None:
        days = load_configuration().limits.log_days
    done = list(compact_logs(open_store(), find_moment(days)))
    if as_json:
        import attrs

        write_json([attrs.asdict(each) for each in done])
        return
    for each in done:
        events, sizes = each.events, each.size_bytes
        write(f"{each.identity}  {events[0]} → {events[1]} events  {sizes[0]} → {sizes[1]} bytes")
    note(f"Compacted: {len(done)} logs.")
