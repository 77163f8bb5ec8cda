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
    """Delete conversations. Forks keep their copies of shared messages.

    Deleting the run of a flow also deletes the conversations of its visits.
    """
    from vibe_llms.interfaces.cli.consent import require_consent

    store = open_store()
    chosen = list(dict.fromkeys(resolve_identity(store, prefix) for prefix in identities))
    if not (yes or load_configuration().yes):
        names = (store.read_metadata(identity).name for identity in chosen)
        descriptions = ", ".join(
            f"{identity} ({name})" if name else identity
            for identity, name in zip(chosen, names, strict=True)
        )
        require_consent(
            f"Delete {descriptions}?", remedy="Add --yes to delete without being asked."
        )
    # Parts first: after an interruption, the command can be repeated and still finds them.
    for identity in (*find_parts(store, chosen), *chosen):
        store.delete(identity)
