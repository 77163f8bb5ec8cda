"""``vibe import``."""

from __future__ import annotations

from pathlib import Path

import click

from vibe_llms.interfaces.cli.access import open_plugins, open_store
from vibe_llms.interfaces.cli.options import IMPORTER, command, json_option


@command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--form",
    default="",
    type=IMPORTER,
    help="json, chatgpt, claude, llm, or what a plugin has; by default what the file looks like.",
)
@json_option
def import_(files: tuple[Path, ...], form: str, as_json: bool) -> None:
    """Bring in conversations: those of `vibe export`, of ChatGPT, of claude.ai or of llm.

    FILE is a JSON document, the ZIP archive that a service has sent, or llm's logs.db. Nothing is
    stored before all of it has been read. What is there already is not stored twice; where it
    has grown since, what is new is added. What cannot be carried over is told.
    """
    from vibe_llms.interfaces.cli.exchanging import choose_reader
    from vibe_llms.interfaces.cli.importing import Account, examine, store_all

    plugins = open_plugins()
    chosen = [(choose_reader(plugins, form, path), path) for path in files]
    counts = [examine(reader, path) for reader, path in chosen]
    account = Account()
    store = open_store()
    try:
        for (reader, path), count in zip(chosen, counts, strict=True):
            store_all(store, reader, path, count, account)
    finally:
        account.tell(as_json)
