"""``vibe search``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import open_index
from vibe_llms.interfaces.cli.options import ROLE, command, json_option
from vibe_llms.interfaces.cli.output import note, repair, sanitize, style, write_json

if TYPE_CHECKING:
    from vibe_llms.conversations.index import SearchHit


@command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", "-n", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--role", type=ROLE, help="Only messages of this role, such as user.")
@click.option("--all", "-a", "everything", is_flag=True, help="Also search the visits of flows.")
@json_option
def search(
    words: tuple[str, ...], limit: int, role: str | None, everything: bool, as_json: bool
) -> None:
    """Search all conversations for words, best match first.

    All words must be in one message. Put a phrase in double quotes; a star at the end of a word
    matches any ending.
    """
    index = open_index()
    hits = index.search(repair(" ".join(words)), limit=limit, role=role, parts=everything)
    if as_json:
        write_json([hit._asdict() for hit in hits])
        return
    if not hits and not index.survey(limit=1):
        note("There are no conversations yet; `vibe chat` starts one.")
    elif not hits:
        note("No matches. All words must be in one message; try fewer words, or word*.")
    for hit in hits:
        _write_hit(hit)


def _write_hit(hit: SearchHit) -> None:
    import sys

    place = f"{hit.id}\t{hit.index}\t{hit.role}\t"
    if sys.stdout.isatty():
        named = f" {hit.name}" if hit.name else ""
        place = style(sanitize(f"{hit.id} [{hit.index}] {hit.role}{named}:"), "cyan") + " "
    text, end = "", 0
    for start, stop in hit.marks:
        text += sanitize(hit.snippet[end:start])
        text += style(sanitize(hit.snippet[start:stop]), "bold", "yellow")
        end = stop
    sys.stdout.write(f"{place}{text}{sanitize(hit.snippet[end:])}\n")
