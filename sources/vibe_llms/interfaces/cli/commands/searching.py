"""``vibe search``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.exceptions import StoreError
from vibe_llms.interfaces.cli.access import load_application, open_index, warn_untrusted
from vibe_llms.interfaces.cli.options import (
    ROLE,
    command,
    download_option,
    json_option,
    produce_limit_option,
)
from vibe_llms.interfaces.cli.output import note, repair, sanitize, style, write_json

if TYPE_CHECKING:
    from vibe_llms.conversations.index import SearchHit
    from vibe_llms.conversations.stores.interfaces import ConversationStore


@command("search")
@click.argument("words", nargs=-1, required=True)
@produce_limit_option("messages")
@click.option("--role", type=ROLE, help="Only messages of this role, such as user.")
@click.option("--all", "-a", "everything", is_flag=True, help="Also search the visits of flows.")
@click.option("--meaning", is_flag=True, help="Search by meaning as well as by words.")
@json_option
@download_option
def search(
    words: tuple[str, ...],
    limit: int,
    role: str | None,
    everything: bool,
    meaning: bool,
    as_json: bool,
    yes: bool,
) -> None:
    """Search all conversations for words, best match first.

    All words must be in one message. Put a phrase in double quotes; a star at the end of a word
    matches any ending.

    With --meaning, describe what you are looking for: messages with other words of the same meaning
    are found, too. By default, a model on this machine compares them, and nothing is sent to a
    vendor. The first such search indexes all conversations, which takes a while; if you interrupt
    it, the next search continues.

    \b
        vibe search "suspension bridge"
        vibe search --meaning "that thing about bridges"
    """
    query = repair(" ".join(words))
    if meaning:
        from vibe_llms.interfaces.cli.interrupts import run

        hits = run(_search_meaning(query, limit, role, parts=everything, yes=yes))
    else:
        hits = open_index().search(query, limit=limit, role=role, parts=everything)
    if as_json:
        write_json([hit._asdict() for hit in hits])
        return
    if not hits and not open_index().survey(limit=1):
        note("There are no conversations yet; `vibe chat` starts one.")
    elif not hits and meaning:
        note("No matches.")
    elif not hits:
        note("No matches. All words must be in one message; try fewer words, word*, or --meaning.")
    for hit in hits:
        _write_hit(hit)


async def _search_meaning(
    query: str, limit: int, role: str | None, *, parts: bool, yes: bool
) -> list[SearchHit]:
    from vibe_llms.interfaces.cli.progress import TerminalProgress
    from vibe_llms.retrieval import MeaningIndex
    from vibe_llms.retrieval.ranking import produce_search_hit

    application = load_application(yes=yes)
    warn_untrusted(application.configuration)
    progress = TerminalProgress("conversations")
    async with application, MeaningIndex(application=application, progress=progress) as index:
        found = await index.search(query, limit=limit, role=role, parts=parts)
        for notice in index.notices:
            note(notice)
    return [produce_search_hit(hit, _read_name(application.store, hit.document)) for hit in found]


def _read_name(store: ConversationStore, identity: str) -> str | None:
    """Return the name of a conversation; ``None`` also if its metadata are damaged or deleted."""
    try:
        return store.read_metadata(identity).name
    except StoreError:
        return None


def _write_hit(hit: SearchHit) -> None:
    import sys

    place = f"{hit.id}\t{hit.index}\t{hit.role}\t"
    if sys.stdout.isatty():
        name = f" {hit.name}" if hit.name else ""
        place = style(sanitize(f"{hit.id} [{hit.index}] {hit.role}{name}:"), "cyan") + " "
    text, end = "", 0
    for start, stop in hit.marks:
        text += sanitize(hit.snippet[end:start])
        text += style(sanitize(hit.snippet[start:stop]), "bold", "yellow")
        end = stop
    sys.stdout.write(f"{place}{text}{sanitize(hit.snippet[end:])}\n")
