"""``vibe memory list``, ``show`` and ``search``."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_application, load_configuration, open_store
from vibe_llms.interfaces.cli.options import (
    NOTE,
    command,
    download_option,
    json_option,
    produce_limit_option,
)
from vibe_llms.interfaces.cli.output import (
    note,
    repair,
    reveal_head,
    sanitize,
    style,
    write,
    write_json,
    write_moment,
    write_table,
)

if TYPE_CHECKING:
    from vibe_llms.memory import Note, NoteBook, NoteHit, NoteOrigin

_all_option = click.option(
    "--all", "-a", "everything", is_flag=True, help="Also the notes of other projects."
)


@command("list")
@click.argument("folder", required=False, default="", type=NOTE)
@_all_option
@json_option
def list_(folder: str, everything: bool, as_json: bool) -> None:
    """List notes: yours, those of this project (project/) and of tags (tags/).

    \b
        vibe memory list
        vibe memory list tags/cooking
    """
    notes = open_notes(is_whole=everything or folder.startswith("projects")).list(folder)
    if as_json:
        write_json([encode_note(each) for each in notes])
    elif not notes:
        note("There are no notes yet; `vibe memory add tea.md 'Likes green tea.'` adds one.")
    else:
        write_table(
            [
                (
                    sanitize(each.path),
                    _write_time(each.updated),
                    sanitize(each.origins[-1].conversation) if each.origins else "",
                    reveal_head(each.text),
                )
                for each in notes
            ],
            headers=("note", "changed", "conversation", "text"),
            styles=("cyan", "dim", "dim", ""),
        )


@command("show")
@click.argument("path", type=NOTE)
@json_option
def show(path: str, as_json: bool) -> None:
    """Show a note, and the conversations from which it was remembered.

    The text is written to standard output, everything else to standard error.

    \b
        vibe memory show project/plan.md
    """
    found = open_notes().read(path)
    if as_json:
        write_json(encode_note(found))
        return
    for origin in found.origins:
        note(f"Remembered {describe_origin(origin)}. See it: vibe show {origin.conversation}")
    text = sanitize(found.text) if sys.stdout.isatty() else found.text
    sys.stdout.write(text if not text or text.endswith("\n") else f"{text}\n")


@command("search")
@click.argument("words", nargs=-1, required=True)
@produce_limit_option("passages")
@_all_option
@click.option("--meaning", is_flag=True, help="Search by meaning as well as by words.")
@json_option
@download_option
async def search(
    words: tuple[str, ...], limit: int, everything: bool, meaning: bool, as_json: bool, yes: bool
) -> None:
    """Search notes for words, or by meaning; best match first.

    \b
        vibe memory search tea
        vibe memory search --meaning "what do I drink?"
    """
    query = repair(" ".join(words))
    if meaning:
        hits = await _search_meaning(query, limit, everything=everything, yes=yes)
    else:
        from vibe_llms.memory.searching import search_words

        hits = search_words(open_notes(is_whole=everything), query, limit=limit)
    if as_json:
        import attrs

        write_json([attrs.asdict(hit) for hit in hits])
        return
    if not hits:
        note("No matches." if meaning else "No matches. Try other words, or --meaning.")
    for hit in hits:
        write(style(f"{sanitize(hit.path)}:{hit.line}", "cyan"))
        write("\n".join(f"  {line}" for line in hit.text.splitlines()))


async def _search_meaning(query: str, limit: int, *, everything: bool, yes: bool) -> list[NoteHit]:
    from vibe_llms.memory.books import open_book
    from vibe_llms.memory.searching import produce_index, search_index

    application = load_application(yes=yes)
    book = open_book(application.store, application.configuration, is_whole=everything)
    async with application, produce_index(book, application) as index:
        await index.update()
        return await search_index(book, index, query, limit=limit)


def open_notes(*, is_whole: bool = True) -> NoteBook:
    """Open the notes of the user.

    Args:
        is_whole: Whether the notes of other projects are accessible, too.
    """
    from vibe_llms.memory.books import open_book

    return open_book(open_store(), load_configuration(), is_whole=is_whole)


def encode_note(found: Note) -> dict[str, Any]:
    """Return a note as JSON."""
    import attrs

    return attrs.asdict(found)


def describe_origin(origin: NoteOrigin) -> str:
    """Return the moment and the place of an origin."""
    turn = "" if origin.turn is None else f", turn {origin.turn}"
    return f"on {write_moment(origin.time)} from conversation {origin.conversation}{turn}"


def _write_time(moment: datetime | None) -> str:
    return "" if moment is None else write_moment(moment)
