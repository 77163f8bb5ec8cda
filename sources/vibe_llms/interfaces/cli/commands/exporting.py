"""``vibe export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.options import command, optional_conversation_argument

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete_form(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from vibe_llms.interfaces.cli.access import open_plugins
    from vibe_llms.plugins.specification import ExporterSpecification

    return [
        CompletionItem(form.name, help=form.summary)
        for form in open_plugins().survey_pieces(ExporterSpecification)
        if form.name.startswith(incomplete)
    ]


@command("export")
@optional_conversation_argument
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), help="The file; standard output by default."
)
@click.option(
    "--format",
    "-f",
    "form",
    default="",
    shell_complete=_complete_form,
    help="markdown, json, html, or what a plugin has; by default what the name of the file asks "
    "for, else markdown.",
)
def export(identity: str | None, output: Path | None, form: str) -> None:
    """Write a conversation as Markdown, as JSON, or as one HTML file with its pictures.

    Without ID, the newest is meant.
    """
    import sys

    from vibe_llms.interfaces.cli.access import find_identity, open_plugins, open_store
    from vibe_llms.interfaces.cli.exchanging import choose_form, compose_document, save_document

    chosen = choose_form(open_plugins(), form, output)
    store = open_store()
    document = compose_document(store, find_identity(store, identity), chosen)
    if output is None:
        from vibe_llms.interfaces.cli.output import sanitize

        sys.stdout.write(sanitize(document) if sys.stdout.isatty() else document)
    else:
        save_document(document, output)
