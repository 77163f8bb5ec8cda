"""``vibe rename``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.options import CONVERSATION, command


@command("rename")
@click.argument("words", metavar="[ID] NAME...", nargs=-1, required=True, type=CONVERSATION)
def rename(words: tuple[str, ...]) -> None:
    """Give a conversation a name. An empty NAME takes it away.

    Without ID, the newest is meant.
    """
    from vibe_llms.interfaces.cli.access import (
        find_newest_identity,
        open_store,
        resolve_identity,
    )
    from vibe_llms.interfaces.cli.output import repair

    store = open_store()
    if len(words) > 1:
        identity = resolve_identity(store, words[0])
    elif words[0] in store.survey():
        raise click.UsageError(f"{words[0]} is a conversation; the new name is missing.")
    else:
        identity = find_newest_identity()
    called = repair(" ".join(words[1:] or words)).strip() or None
    store.update_metadata(identity, name=called)
