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
    help="Minimum age in days (default: the setting `log_days`).",
)
@json_option
def compact(days: float | None, as_json: bool) -> None:
    """Shorten the logs of finished runs, as daemons and workers do automatically.

    The essential data stays: the request, the model and its parameters, usage, calls, approvals and
    the reason for the end. Intermediate states, retries and copies of the conversation are removed.
    Event numbers stay the same, and so do the results of `vibe runs replay` and `diff`.

    \b
        vibe store compact
        vibe store compact --older-than 7
    """
    from vibe_llms.runs.compacting import compact_logs, find_moment

    if days is None:
        days = load_configuration().limits.log_days
    reports = list(compact_logs(open_store(), find_moment(days)))
    if as_json:
        import attrs

        write_json([attrs.asdict(each) for each in reports])
        return
    for each in reports:
        events, sizes = each.events, each.size_bytes
        write(f"{each.identity}  {events[0]} → {events[1]} events  {sizes[0]} → {sizes[1]} bytes")
    note(f"Compacted: {len(reports)} logs.")
