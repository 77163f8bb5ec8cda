"""``vibe models``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import load_application, require_provider
from vibe_llms.interfaces.cli.options import (
    MODEL,
    PROVIDER,
    Command,
    Group,
    download_option,
    json_option,
)
from vibe_llms.interfaces.cli.output import note, write_explanations, write_json, write_table
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.application import Application
    from vibe_llms.configuration.classes import Configuration
    from vibe_llms.configuration.explanations import Explanation as Setting
    from vibe_llms.foundation.json_types import JsonValue
    from vibe_llms.foundation.sentinels import Absence
    from vibe_llms.models.addresses import ModelAddress
    from vibe_llms.models.attributes import AttributeRow, ModelAttributes
    from vibe_llms.providers.surveys import Survey


_PLUGIN_KEYS = ("module", "package", "enabled", "kind")
"""Settings of a provider that select its code and say nothing about its models."""


@click.group("models", cls=Group, default="list")
def models() -> None:
    """List, explain and download models. Without a command: list."""


@models.command("list", cls=Command)
@click.option("--provider", type=PROVIDER, help="Only models of this provider.")
@click.option(
    "--refresh", is_flag=True, help="Ask the vendors again, even if their lists are recent."
)
@click.option(
    "--genus", type=click.Choice([each.value for each in Genus]), help="Only models of this genus."
)
@json_option
def list_(provider: str | None, refresh: bool, genus: str | None, as_json: bool) -> None:
    """List the known models; a star marks the configured one.

    Vendors' lists are cached for a day, and their age is shown. A provider may have more models:
    you can use any name that it accepts.
    """
    from vibe_llms.providers.surveys import describe_age

    application = load_application()
    if provider is not None:
        provider = application.configuration.follow_aliases(provider)
        require_provider(application.configuration, provider)
    chosen = [name for name in application.configuration.providers if provider in (None, name)]
    if refresh:
        _refresh(application, chosen if provider else _select_ready(application, chosen))
    rows = [row for name in chosen for row in _survey(application, name)]
    genera = {address: _find_genus(application, address) for address, _ in rows}
    rows = [row for row in rows if genus in (None, genera[row[0]])]
    if as_json:
        write_json(
            [
                {
                    "address": address,
                    "genus": genera[address],
                    "configured": address == application.configuration.model,
                    "fetched_at": survey.fetched_at if survey else None,
                }
                for address, survey in rows
            ]
        )
        return
    if not rows:
        shown_name = provider or "any provider"
        note(
            f"No models of {shown_name} are listed, but you can use any model that it has. To "
            f"fetch its list: `vibe models list --provider {provider or 'NAME'} --refresh`."
        )
    write_table(
        (
            (
                "*" if address == application.configuration.model else "",
                address,
                genera[address],
                f"as of {describe_age(survey.age_seconds)}" if survey else "",
            )
            for address, survey in rows
        ),
        headers=("", "model", "genus", "listed by its vendor"),
    )


def _find_genus(application: Application, address: str) -> str:
    """Return the genus of a model, if known without asking its vendor."""
    from vibe_llms.models.addresses import ModelAddress

    return str(application.catalogue.access_attributes(ModelAddress.parse(address)).genus)


def _select_ready(application: Application, providers: Sequence[str]) -> list[str]:
    """Return the usable providers; name all others in one line, for example without a key."""
    from vibe_llms.plugins.missing_requirements import survey_missing

    missing = survey_missing(application.plugins, providers)
    lacking = [
        name
        for name in providers
        if any(requirement.prevents for requirement in missing[name].requirements)
    ]
    if lacking:
        note(f"Not asked (key, package or server is missing): {', '.join(sorted(lacking))}")
    return [name for name in providers if name not in lacking]


def _refresh(application: Application, providers: Sequence[str]) -> None:
    """Refresh each vendor's list; an unreachable vendor is reported and keeps its old list."""
    from vibe_llms.exceptions import ConverseError
    from vibe_llms.interfaces.cli.interrupts import run

    async def perform() -> None:
        async with application:
            for name in providers:
                try:
                    models = await application.survey_models(name, refresh=True)
                    if not models and len(providers) == 1:  # the user has named it
                        note(f"{name} publishes no list; use any of its models by name.")
                except ConverseError as error:
                    note(f"Cannot ask {name}: {error}")

    run(perform())


def _survey(application: Application, provider: str) -> list[tuple[str, Survey | None]]:
    """List the vendor's last known models, else the built-in ones; make no requests."""
    from vibe_llms.providers.surveys import access_survey

    configuration = application.configuration
    survey = access_survey(configuration.cache_directory / "providers" / provider)
    default = str(configuration.providers[provider].settings.get("model", ""))
    known = [f"{provider}:{default}"] if default else []
    known += [str(address) for address in application.catalogue.survey_models(provider)]
    listed = [f"{provider}:{model.name}" for model in survey.models] if survey else []
    if not listed:
        return [(address, None) for address in dict.fromkeys(known)]
    first = [address for address in known if address in listed]
    return [(address, survey) for address in dict.fromkeys((*first, *listed))]


@models.command("show", cls=Command)
@click.argument("address", type=MODEL, required=False)
@click.option("--refresh", is_flag=True, help="Also ask the provider about the model.")
@json_option
def show(address: str | None, refresh: bool, as_json: bool) -> None:
    """Explain what is known about a model, each value with its source.

    Without ADDRESS, explain the configured model.
    """
    application = load_application()
    resolved = application.resolve_address(address or "")
    require_provider(application.configuration, resolved.provider)
    if refresh:
        attributes = _acquire_attributes(application, resolved)
        resolved = attributes.address
    else:
        if not resolved.name:
            resolved = application.catalogue.resolve_address(resolved.provider)
        attributes = application.catalogue.access_attributes(resolved)
    rows = attributes.explain()
    settings = _survey_settings(application.configuration, resolved.provider)
    if as_json:
        write_json(
            {
                "address": str(resolved),
                "attributes": [_encode(row) for row in rows],
                "settings": {each.name: each.value for each in settings},
            }
        )
        return
    write_explanations(
        [
            *(
                (row.key, _format(row.value), f"{row.layer}: {_describe_source(row)}")
                for row in rows
            ),
            *((each.name, _format(each.value), each.source) for each in settings),
        ]
    )


def _acquire_attributes(application: Application, address: ModelAddress) -> ModelAttributes:
    """Return the data of a model, including the data that its provider reports."""
    from vibe_llms.interfaces.cli.interrupts import run

    async def perform() -> ModelAttributes:
        async with application:
            return (await application.access_model(str(address))).descriptor.attributes

    return run(perform())


def _survey_settings(configuration: Configuration, provider: str) -> list[Setting]:
    """List the user's settings for the provider, which may change its models' data."""
    from vibe_llms.configuration.explanations import explain_configuration

    prefix = f"providers.{provider}."
    return [
        each
        for each in explain_configuration(configuration)
        if each.name.startswith(prefix) and each.name.removeprefix(prefix) not in _PLUGIN_KEYS
    ]


@models.command("pull", cls=Command)
@click.argument("address", type=MODEL, required=False)
@download_option
async def pull(address: str | None, yes: bool) -> None:
    """Download what a model needs to run on this machine, such as its weights.

    Asks first, and shows the progress. Without ADDRESS, download for the configured model.
    """
    from vibe_llms.plugins.missing_requirements import refuse_missing

    application = load_application(yes=yes)
    target = address or application.configuration.model
    resolved = application.resolve_address(target)
    genus = _find_genus(application, str(resolved)) if resolved.name else Genus.CONVERSER
    is_converser = genus == Genus.CONVERSER or genus not in set(Genus)
    async with application:
        if is_converser:
            await application.access_model(target)
        else:
            await application.access(Genus(genus), str(resolved))
    if is_converser:
        refuse_missing(application.plugins, resolved.provider)
    note(f"{target} is ready.")


def _format(value: JsonValue | Absence) -> str:
    import json

    from vibe_llms.foundation.sentinels import is_absent

    if is_absent(value):
        return "(removed)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _describe_source(row: AttributeRow) -> str:
    source = row.source or row.file
    text = f"{source}, {row.date}" if row.date else source
    former = ", ".join(f"{_format(each.value)} ({each.provenance})" for each in row.earlier_values)
    return f"{text}; before: {former}" if former else text


def _encode(row: AttributeRow) -> dict[str, object]:
    from vibe_llms.foundation.sentinels import is_absent

    return {
        "key": row.key,
        "value": None if is_absent(row.value) else row.value,
        "is_removed": is_absent(row.value),
        "layer": row.layer,
        "file": row.file,
        "source": row.source,
        "date": row.date,
        "overrode": [
            {"value": None if is_absent(each.value) else each.value, "layer": str(each.provenance)}
            for each in row.earlier_values
        ],
    }
