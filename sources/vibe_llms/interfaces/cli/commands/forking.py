"""``vibe fork``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.access import find_identity, open_store
from vibe_llms.interfaces.cli.options import command, json_option, optional_conversation_argument
from vibe_llms.interfaces.cli.output import write, write_json


@command("fork")
@optional_conversation_argument
@click.option(
    "--from",
    "from_index",
    type=click.IntRange(min=0),
    help="Number of canisters to share (default: all).",
)
@json_option
def fork(identity: str | None, from_index: int | None, as_json: bool) -> None:
    """Start a conversation that shares another's history, and print its id.

    Without ID, fork the newest. `vibe show` numbers the canisters.
    """
    store = open_store()
    parent = find_identity(store, identity)
    if from_index is not None:
        count = len(store.read(parent).canisters)
        if from_index > count:
            raise click.UsageError(f"{parent} has only {count} canisters.")
    child = store.fork(parent, from_index=from_index)
    if as_json:
        write_json({"id": child, "parent": parent})
    else:
        write(child)
