"""``vibe rename``."""

from __future__ import annotations

import click

from vibe_llms.conversations.names import read_name
from vibe_llms.interfaces.cli.access import find_newest_identity, open_store, resolve_first_word
from vibe_llms.interfaces.cli.options import CONVERSATION, command
from vibe_llms.interfaces.cli.output import note, repair
from vibe_llms.interfaces.cli.program import compose_command


@command("rename")
@click.argument("words", metavar="[ID] NAME...", nargs=-1, required=True, type=CONVERSATION)
def rename(words: tuple[str, ...]) -> None:
    """Rename a conversation. An empty NAME removes its name.

    Without ID, rename the newest; then put a NAME of several words in quotes:

    \b
        vibe rename "A nice walk"
        vibe rename ab12 A nice walk
    """
    store = open_store()
    if len(words) > 1:
        identity = resolve_first_word(
            store,
            words[0],
            compose_command("rename", " ".join(words)),
            lambda identity: compose_command("rename", identity, " ".join(words[1:])),
        )
    elif words[0] in store.survey():
        raise click.UsageError(f"{words[0]} is a conversation; the new name is missing.")
    else:
        identity = find_newest_identity(store)
    name = read_name(repair(" ".join(words[1:] or words)))
    store.update_metadata(identity, name=name)
    note(f"{identity} is now called {name}." if name else f"{identity} has no name now.")
