"""``vibe models``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.options import MODEL, PROVIDER, Command, json_option, yes_option

if TYPE_CHECKING:
    from vibe_llms.absence import Absence
    from vibe_llms.models.attributes import Explanation
    from vibe_llms.plain import JsonValue


@click.group("models", invoke_without_command=True)
@click.pass_context
def models(context: click.Context) -> None:
    """List, explain and fetch models. By itself: list."""
    if context.invoked_subcommand is None:
        context.invoke(list_, provider=None, as_json=False)


@models.command("list", cls=Command)
@click.option("--provider", type=PROVIDER, help="Only the models of this provider.")
@json_option
def list_(provider: str | None, as_json: bool) -> None:
    """List the models that are known by name; a star marks the configured one.

    A provider may have more: any name that it knows can be used.
    """
    from vibe_llms.interfaces.cli.access import load_application, require_provider
    from vibe_llms.interfaces.cli.output import write_json, write_table

    application = load_application()
    if provider is not None:
        require_provider(application.configuration, provider)
    configured = application.configuration.model
    addresses = [
        str(address)
        for name in application.configuration.providers
        if provider in (None, name)
        for address in application.catalogue.survey_models(name)
    ]
    if as_json:
        write_json([{"address": each, "configured": each == configured} for each in addresses])
    else:
        write_table(("*" if each == configured else "", each) for each in addresses)


@models.command("show", cls=Command)
@click.argument("address", type=MODEL, required=False)
@json_option
def show(address: str | None, as_json: bool) -> None:
    """Explain what is known about a model, each value with its source.

    Without ADDRESS, about the configured model.
    """
    from vibe_llms.interfaces.cli.access import load_application, require_provider
    from vibe_llms.interfaces.cli.output import write_explanations, write_json

    application = load_application()
    resolved = application.catalogue.resolve_address(address or application.configuration.model)
    require_provider(application.configuration, resolved.provider)
    rows = application.catalogue.access_attributes(resolved).explain()
    if as_json:
        write_json({"address": str(resolved), "attributes": [_encode(row) for row in rows]})
        return
    write_explanations(
        (row.key, _format(row.value), f"{row.layer}: {_describe_source(row)}") for row in rows
    )


@models.command("pull", cls=Command)
@click.argument("address", type=MODEL, required=False)
@yes_option
def pull(address: str | None, yes: bool) -> None:
    """Fetch what a model needs to run on this machine, such as its weights.

    Asks first, and shows how far it has come. Without ADDRESS, for the configured model.
    """
    import asyncio

    from vibe_llms.interfaces.cli.access import load_application
    from vibe_llms.interfaces.cli.interrupts import run_interruptibly
    from vibe_llms.interfaces.cli.output import note

    application = load_application(yes=yes)
    target = address or application.configuration.model

    async def perform() -> None:
        try:
            await run_interruptibly(application.access_model(target))
        finally:
            await application.close()

    asyncio.run(perform())
    note(f"{target} is ready.")


def _format(value: JsonValue | Absence) -> str:
    import json

    from vibe_llms.absence import is_absent

    if is_absent(value):
        return "(removed)"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _describe_source(row: Explanation) -> str:
    source = row.source or row.file
    dated = f"{source}, {row.date}" if row.date else source
    former = ", ".join(f"{_format(each.value)} ({each.provenance})" for each in row.overrode)
    return f"{dated}; before: {former}" if former else dated


def _encode(row: Explanation) -> dict[str, object]:
    from vibe_llms.absence import is_absent

    return {
        "key": row.key,
        "value": None if is_absent(row.value) else row.value,
        "is_removed": is_absent(row.value),
        "layer": row.layer,
        "file": row.file,
        "source": row.source,
        "date": row.date,
        "overrode": [
            {"value": None if is_absent(e.value) else e.value, "layer": str(e.provenance)}
            for e in row.overrode
        ],
    }
