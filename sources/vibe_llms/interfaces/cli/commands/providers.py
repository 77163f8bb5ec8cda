"""``vibe providers``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vibe_llms.interfaces.cli.access import load_configuration, warn_untrusted
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import write_json, write_table

if TYPE_CHECKING:
    from vibe_llms.plugins.listings import PluginListing
    from vibe_llms.plugins.missing_requirements import MissingRequirements


@command("providers")
@json_option
def providers(as_json: bool) -> None:
    """List the configured providers, what each one needs, and how to get it.

    Contacts no vendor, but looks for servers on this machine.
    """
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.missing_requirements import survey_missing

    configuration = load_configuration()
    manager = PluginManager(configuration=configuration)
    listings = [each for each in manager.survey() if each.is_provider]
    missing = survey_missing(manager, [listing.entry.name for listing in listings])
    if as_json:
        write_json([_encode(each, missing[each.entry.name]) for each in listings])
        return
    warn_untrusted(configuration)
    other_names: dict[str, list[str]] = {}
    for alias, target in configuration.aliases.items():
        other_names.setdefault(target, []).append(alias)
    write_table(
        (
            (
                each.entry.name,
                ", ".join(other_names.get(each.entry.name, ())),
                _describe(each, missing[each.entry.name]),
                _advise(each, missing[each.entry.name]),
            )
            for each in listings
        ),
        headers=("provider", "aliases", "state", "what to do"),
        styles=("cyan", "cyan", "", "dim"),
        whole=True,
    )


def _describe(listing: PluginListing, missing: MissingRequirements) -> str:
    """Describe in a word or two whether the provider is ready."""
    if not listing.is_usable:
        return str(listing.state)
    if missing.error is not None:
        return "misconfigured"
    return f"needs {', '.join(map(str, missing.requirements))}" if missing.requirements else "ready"


def _advise(listing: PluginListing, missing: MissingRequirements) -> str:
    """Suggest a fix; empty if the provider is ready."""
    if missing.error is not None:
        return str(missing.error)
    if missing.requirements:
        return " ".join(requirement.remedy for requirement in missing.requirements)
    return "" if listing.is_usable else (listing.reason or str(listing.entry.source))


def _encode(listing: PluginListing, missing: MissingRequirements) -> dict[str, Any]:
    state, reason = str(listing.state), listing.reason
    if missing.error is not None:
        state, reason = "failed", reason or str(missing.error)
    return {
        "name": listing.entry.name,
        "state": state,
        "reason": reason,
        "missing": [
            {"kind": str(requirement.kind), "name": requirement.name, "remedy": requirement.remedy}
            for requirement in missing.requirements
        ],
        "module": listing.entry.module,
        "package": listing.entry.package,
        "source": str(listing.entry.source),
    }
