"""``vibe export``."""

from __future__ import annotations

from pathlib import Path

import click

from vibe_llms.interfaces.cli.options import command, conversation_argument


@command("export")
@conversation_argument
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="The file; standard output by default."
)
@click.option(
    "--format",
    "-f",
    "form",
    type=click.Choice(["markdown", "json", "html"]),
    help="By default what the name of the file asks for, else markdown.",
)
def export(identity: str, output: Path | None, form: str | None) -> None:
    """Write a conversation as Markdown, as JSON, or as one HTML file with its pictures."""
    import sys

    from vibe_llms.interfaces.cli.access import open_store, resolve_identity
    from vibe_llms.interfaces.cli.exchanging import choose_form, compose_document, write_document

    if form is None:
        form = "markdown" if output is None else choose_form(output)
    store = open_store()
    document = compose_document(store, resolve_identity(store, identity), form)
    if output is None:
        from vibe_llms.interfaces.cli.output import sanitize

        sys.stdout.write(sanitize(document) if sys.stdout.isatty() else document)
    else:
        write_document(document, output)
