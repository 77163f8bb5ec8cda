"""``vibe list``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.access import open_index
from vibe_llms.interfaces.cli.options import command, json_option, produce_limit_option
from vibe_llms.interfaces.cli.output import note, write_json, write_moment, write_table


@command("list")
@produce_limit_option("conversations")
@click.option(
    "--all",
    "-a",
    "everything",
    is_flag=True,
    help="List all conversations, also those of flows' visits.",
)
@json_option
def list_(limit: int, everything: bool, as_json: bool) -> None:
    """List conversations, newest first."""
    rows = open_index().survey(limit=None if everything else limit, parts=everything)
    if as_json:
        write_json([row._asdict() for row in rows])
        return
    if not rows:
        note("There are no conversations yet; `vibe chat` starts one.")
    write_table(
        (
            (
                row.id,
                write_moment(row.updated),
                str(row.canisters),
                row.model or "",
                row.name or row.first_words,
            )
            for row in rows
        ),
        headers=("id", "last message", "size", "model", "name or first words"),
        styles=("cyan", "dim", "", "dim"),
    )
