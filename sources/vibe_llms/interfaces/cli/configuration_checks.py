"""Checks of ``vibe config check``: everything in the configuration, without requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from vibe_llms.configuration.locating import locate_findings
from vibe_llms.exceptions import ConfigurationError, ConverseError, Finding, UnknownNameError
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.application import Application


def survey_mistakes(application: Application, *, about: Sequence[str] = ()) -> Iterator[Finding]:
    """Yield all mistakes, each with its file and, if known, its line.

    Args:
        about: The parts of a setting's name, to report only mistakes in its table.
    """
    tables = {".".join(about[:2])}
    if about[:1] == ("providers",) and len(about) > 1:
        tables.add(f"providers.{application.configuration.follow_aliases(about[1])}")
    prefixes = tuple(f"{table}." for table in tables)
    for finding in _survey(application):
        if not about or f"{finding.path}.".startswith(prefixes):
            yield finding


def _survey(application: Application) -> Iterator[Finding]:
    configuration = application.configuration
    yield from _survey_plugins(application)
    yield from _survey_ensembles(application)
    yield from locate_findings(configuration, _survey_servers(application))
    yield from locate_findings(configuration, _survey_guards(application))
    yield from locate_findings(configuration, _survey_names(application))


def _survey_plugins(application: Application) -> Iterator[Finding]:
    """Yield errors from loading plugins, and mistakes in the tables of providers."""
    from vibe_llms.plugins.missing_requirements import survey_missing

    failures = application.plugins.load_all()
    for failure in failures:
        yield from _read_error(failure.error, failure.place, f"{failure.name}: {failure.reason}")
    configuration = application.configuration
    names = configuration.providers.keys() - {failure.name for failure in failures}
    for name, missing in survey_missing(application.plugins, sorted(names)).items():
        if missing.error is not None:
            place = str(configuration.providers[name].source)
            yield from _read_error(missing.error, place, f"{name}: {missing.error}")


def _survey_ensembles(application: Application) -> Iterator[Finding]:
    """Yield mistakes in the tables of ensembles.

    An ensemble without settings is not loaded: whether that succeeds depends on the directory in
    which the command runs.
    """
    for listing in application.plugins.survey():
        has_settings = listing.entry.table == "ensembles" and listing.entry.settings
        if has_settings and listing.is_usable:
            try:
                application.plugins.load_ensemble(listing.entry.name)
            except ConverseError as error:
                yield from _read_error(error, str(listing.entry.source), str(error))


def _survey_servers(application: Application) -> Iterator[Finding]:
    from vibe_llms.invocables.mcp.settings import access_servers

    for name in application.configuration.servers:
        try:
            access_servers(application.configuration, [name])
        except ConverseError as error:
            yield from _read_error(error, f"mcp.{name}", str(error))


def _survey_guards(application: Application) -> Iterator[Finding]:
    try:
        _ = application.guards
    except ConverseError as error:
        yield from _read_error(error, "guards", str(error))


def _survey_names(application: Application) -> Iterator[Finding]:
    """Yield aliases and default models of unknown providers, and a model without its package."""
    from vibe_llms.plugins.missing_requirements import survey_missing
    from vibe_llms.providers.requirements import RequirementKind

    configuration = application.configuration
    known = configuration.providers
    suggested_names = configuration.provider_names
    for alias in configuration.aliases:
        provider = configuration.follow_aliases(alias).partition(":")[0]
        if provider not in known:
            message = f"Unknown provider {provider!r}{suggest(provider, suggested_names)}"
            yield Finding(place=f"aliases.{alias}", message=message)
    for genus in Genus:
        if genus in configuration.settings:
            address = configuration.follow_aliases(configuration.find_default(genus))
            provider = address.partition(":")[0]
            if provider not in known:
                message = f"Unknown provider {provider!r}{suggest(provider, suggested_names)}"
                yield Finding(place=str(genus), message=message)
    place = "model"
    try:
        provider = application.resolve_address().provider
    except UnknownNameError as error:
        yield Finding(place=place, message=str(error))
        return
    except ConfigurationError:
        return  # already reported with the others
    if provider not in known:
        message = f"Unknown provider {provider!r}{suggest(provider, suggested_names)}"
        yield Finding(place=place, message=message)
        return
    for requirement in survey_missing(application.plugins, [provider])[provider].requirements:
        if requirement.kind is RequirementKind.PACKAGE:
            message = (
                f"Cannot use {configuration.model} without {requirement}. {requirement.remedy}"
            )
            yield Finding(place=place, message=message)


def _read_error(error: ConverseError, place: str, message: str) -> tuple[Finding, ...]:
    """Return the findings of an error; without findings, make one of the place and the message."""
    findings = error.findings if isinstance(error, ConfigurationError) else ()
    return findings or (Finding(place=place, message=message),)
