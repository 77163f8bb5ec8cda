"""``vibe delete``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.access import (
    find_parts,
    load_configuration,
    open_store,
    resolve_identity,
)
from vibe_llms.interfaces.cli.options import CONVERSATION, command, yes_option


@command("delete")
@click.argument("identities", metavar="ID...", nargs=-1, required=True, type=CONVERSATION)
@yes_option
def delete(identities: tuple[str, ...], yes: bool) -> None:
    """Delete conversations. Forks first receive what they share.

    Deleting the run of a flow also deletes the conversations of its visits.
    """
    from vibe_llms.interfaces.cli.consent import require_consent

    store = open_store()
    found = list(dict.fromkeys(resolve_identity(store, prefix) for prefix in identities))
    if not (yes or load_configuration().yes):
        names = (store.read_metadata(identity).name for identity in found)
        described = ", ".join(
            f"{identity} ({name})" if name else identity
            for identity, name in zip(found, names, strict=True)
        )
        require_consent(f"Delete {described}?", remedy="Add --yes to delete without being asked.")
    for identity in (*find_parts(store, found), *found):  # this order makes it repeatable
        store.delete(identity)
