"""``vibe providers``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.interfaces.cli.access import load_configuration, tell_untrusted
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import write_json, write_table

if TYPE_CHECKING:
    from vibe_llms.plugins.listings import PluginListing
    from vibe_llms.plugins.wants import Wants


@command("providers")
@json_option
def providers(as_json: bool) -> None:
    """List the configured providers, what each one is missing, and how to get it.

    Contacts no vendor; checks for servers on this machine only.
    """
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.wants import survey_wants

    configuration = load_configuration()
    manager = PluginManager(configuration=configuration)
    listings = [each for each in manager.survey() if each.is_provider]
    wants = survey_wants(manager, [listing.entry.name for listing in listings])
    if as_json:
        write_json([_encode(each, wants[each.entry.name]) for each in listings])
        return
    tell_untrusted(configuration)
    other_names: dict[str, list[str]] = {}
    for alias, meant in configuration.aliases.items():
        other_names.setdefault(meant, []).append(alias)
    write_table(
        (
            (
                each.entry.name,
                ", ".join(other_names.get(each.entry.name, ())),
                _describe(each, wants[each.entry.name]),
                _advise(each, wants[each.entry.name]),
            )
            for each in listings
        ),
        headers=("provider", "aliases", "state", "what to do"),
        styles=("cyan", "cyan", "", "dim"),
        whole=True,
    )


def _describe(listing: PluginListing, wants: Wants) -> str:
    """Describe in a word or two whether the provider is ready."""
    if not listing.is_usable:
        return str(listing.state)
    if wants.error is not None:
        return "misconfigured"
    return f"needs {', '.join(map(str, wants.needs))}" if wants.needs else "ready"


def _advise(listing: PluginListing, wants: Wants) -> str:
    """Suggest a fix; empty if the provider is ready."""
    if wants.error is not None:
        return str(wants.error)
    if wants.needs:
        return " ".join(need.remedy for need in wants.needs)
    return "" if listing.is_usable else (listing.reason or str(listing.entry.source))


def _encode(listing: PluginListing, wants: Wants) -> dict[str, Any]:
    return {
        "name": listing.entry.name,
        "state": "failed" if wants.error is not None else str(listing.state),
        "reason": listing.reason or (str(wants.error) if wants.error is not None else ""),
        "missing": [
            {"kind": str(need.kind), "name": need.name, "remedy": need.remedy}
            for need in wants.needs
        ],
        "module": listing.entry.module,
        "package": listing.entry.package,
        "source": str(listing.entry.source),
    }
