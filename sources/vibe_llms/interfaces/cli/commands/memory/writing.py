"""``vibe memory add``, ``edit`` and ``delete``."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from vibe_llms.interfaces.cli.access import load_configuration
from vibe_llms.interfaces.cli.commands.memory.reading import open_notes
from vibe_llms.interfaces.cli.options import NOTE, command, yes_option
from vibe_llms.interfaces.cli.output import note, repair
from vibe_llms.interfaces.cli.texts import gather_prompt


@command("add")
@click.argument("path", type=NOTE)
@click.argument("words", nargs=-1)
def add(path: str, words: tuple[str, ...]) -> None:
    """Add a text to the end of a note; create the note if it is missing.

    Without WORDS, the text is read from standard input.

    \b
        vibe memory add tea.md "Likes green tea."
        vibe memory add project/plan.md < plan.md
    """
    text = gather_prompt(" ".join(words) if words else None)
    open_notes().add(path, text)


@command("edit")
@click.argument("path", type=NOTE)
def edit(path: str) -> None:
    """Edit a note in your editor ($EDITOR), or replace its text by standard input.

    \b
        vibe memory edit tea.md
    """
    book = open_notes()
    if not can_edit():
        book.write(path, gather_prompt(None) + "\n")
        return
    found = book.find(path)
    before = None if found is None else found.text
    original = (before or "").encode()
    descriptor, name = tempfile.mkstemp(prefix="vibe-", suffix=".md")
    os.close(descriptor)
    file = Path(name)
    file.write_bytes(original)
    is_stored = False
    try:
        click.edit(filename=name)
        if file.read_bytes() == original:
            note("The note is unchanged.")
            return
        text = file.read_bytes().decode("utf-8-sig")
        book.change(path, _produce_replacement(path, before, text))
        is_stored = True
    finally:  # also after an interruption, a text that is not stored stays in its file
        if is_stored or file.read_bytes() == original:
            file.unlink()
        else:
            note(f"Your text is in {name}.")


def _produce_replacement(path: str, before: str | None, text: str) -> Callable[[str | None], str]:
    def replace(current: str | None) -> str:
        if current != before:
            message = f"{path} was changed by another program; your text was not stored."
            raise click.ClickException(message)
        return text

    return replace


def can_edit() -> bool:
    """Return whether an editor can be used: standard input is a terminal."""
    return sys.stdin.isatty()


@command("delete")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=NOTE)
@yes_option
def delete(paths: tuple[str, ...], yes: bool) -> None:
    """Delete notes, or folders with all their notes.

    \b
        vibe memory delete tea.md tags/cooking
    """
    from vibe_llms.interfaces.cli.consent import require_consent

    book = open_notes()
    names = list(dict.fromkeys(map(repair, paths)))
    if not (yes or load_configuration().yes):
        shown = ", ".join(each.path for path in names for each in book.list(path))
        require_consent(f"Delete {shown}?", remedy="Add --yes to delete without being asked.")
    for path in names:
        book.delete(path)
