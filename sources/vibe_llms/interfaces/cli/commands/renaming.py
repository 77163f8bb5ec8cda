"""``vibe rename``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.options import command, conversation_argument


@command("rename")
@conversation_argument
@click.argument("name", nargs=-1, required=True)
def rename(identity: str, name: tuple[str, ...]) -> None:
    """Give a conversation a name. An empty NAME takes it away."""
    from vibe_llms.interfaces.cli.access import open_store, resolve_identity
    from vibe_llms.interfaces.cli.output import repair

    store = open_store()
    called = repair(" ".join(name)).strip() or None
    store.update_metadata(resolve_identity(store, identity), name=called)
