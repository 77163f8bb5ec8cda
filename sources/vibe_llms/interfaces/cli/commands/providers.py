"""``vibe providers``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.interfaces.cli.options import command, json_option

if TYPE_CHECKING:
    from vibe_llms.plugins.listings import PluginListing


@command("providers")
@json_option
def providers(as_json: bool) -> None:
    """List the configured providers, how far each is from being used, and where it is named.

    Imports none of them.
    """
    from vibe_llms.interfaces.cli.access import load_configuration, tell_untrusted
    from vibe_llms.interfaces.cli.output import write_json, write_table
    from vibe_llms.plugins.manager import PluginManager

    configuration = load_configuration()
    listings = [
        listing
        for listing in PluginManager(configuration=configuration).survey()
        if listing.entry.table == "providers"
    ]
    if as_json:
        write_json([_encode(listing) for listing in listings])
        return
    tell_untrusted(configuration)
    write_table(
        (
            (
                listing.entry.name,
                str(listing.state),
                listing.entry.module,
                str(listing.entry.source),
            )
            for listing in listings
        ),
        styles=("cyan", "", "", "dim"),
    )


def _encode(listing: PluginListing) -> dict[str, str]:
    return {
        "name": listing.entry.name,
        "state": str(listing.state),
        "reason": listing.reason,
        "module": listing.entry.module,
        "package": listing.entry.package,
        "source": str(listing.entry.source),
    }
