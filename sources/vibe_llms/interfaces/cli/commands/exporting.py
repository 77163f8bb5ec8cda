"""``vibe export``."""

from __future__ import annotations

from pathlib import Path

import click

from vibe_llms.interfaces.cli.access import find_identity, open_plugins, open_store
from vibe_llms.interfaces.cli.options import EXPORTER, command, optional_conversation_argument
from vibe_llms.interfaces.cli.output import sanitize


@command("export")
@optional_conversation_argument
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="Output file; default: standard output."
)
@click.option(
    "--format",
    "-f",
    "form",
    default="",
    type=EXPORTER,
    help="markdown, json, html or a plugin's; default: from the file name.",
)
def export(identity: str | None, output: Path | None, form: str) -> None:
    """Write a conversation as Markdown, as JSON, or as one HTML file with its pictures.

    Without ID, write the newest.
    """
    import sys

    from vibe_llms.interfaces.cli.exchanging import choose_form, compose_document, save_document

    chosen = choose_form(open_plugins(), form, output)
    store = open_store()
    document = compose_document(store, find_identity(store, identity), chosen)
    if output is None:
        sys.stdout.write(sanitize(document) if sys.stdout.isatty() else document)
    else:
        save_document(document, output)
