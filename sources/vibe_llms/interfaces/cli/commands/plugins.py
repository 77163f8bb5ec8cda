"""``vibe plugins``."""

from __future__ import annotations

from pathlib import Path

import click

from vibe_llms.interfaces.cli.access import load_application, load_configuration, open_plugins
from vibe_llms.interfaces.cli.options import PLUGIN, Command, Group, json_option, yes_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table


@click.group("plugins", cls=Group, default="list")
def plugins() -> None:
    """List, add, remove and create plugins. Without a command: list added plugins."""


@plugins.command("list", cls=Command)
@click.option("--all", "everything", is_flag=True, help="Include the built-in plugins.")
@json_option
def list_(everything: bool, as_json: bool) -> None:
    """List plugins, their state, and where they are configured. Imports none of them."""
    from vibe_llms.configuration.classes import Layer

    listings = [
        listing
        for listing in open_plugins().survey()
        if everything or listing.entry.source.layer is not Layer.DEFAULTS
    ]
    if as_json:
        write_json(
            [
                {
                    "name": listing.entry.name,
                    "kind": listing.entry.table.removesuffix("s"),
                    "state": str(listing.state),
                    "module": listing.entry.module,
                    "package": listing.entry.package,
                    "source": str(listing.entry.source),
                }
                for listing in listings
            ]
        )
        return
    write_table(
        (
            (
                listing.entry.name,
                listing.entry.table.removesuffix("s"),
                str(listing.state),
                listing.entry.module,
                str(listing.entry.source),
            )
            for listing in listings
        ),
        headers=("plugin", "kind", "state", "module", "source"),
        styles=("cyan", "", "", "", "dim"),
    )
    if not listings:
        note(
            "No plugins were added. See `vibe plugins add --help`; --all lists the built-in "
            "plugins."
        )


@plugins.command("add", cls=Command)
@click.argument("package", type=click.Path())
@click.option("--yes", "-y", is_flag=True, help="Agree to install the package and run its code.")
def add(package: str, yes: bool) -> None:
    """Install the plugin PACKAGE and write its tables into your configuration.

    PACKAGE is a name on the package index, optionally with a version, or the path of a folder or
    wheel. After you agree, pip installs it into a folder of its own.
    """
    from vibe_llms.plugins.adding import add_plugin

    application = load_application(yes=yes)
    for entry in add_plugin(package, application.configuration, application.plugins.consent):
        click.echo(
            f"Added the {entry.table.removesuffix('s')} {entry.name} to {entry.source.place}."
        )


@plugins.command("remove", cls=Command)
@click.argument("name", type=PLUGIN)
@yes_option
def remove(name: str, yes: bool) -> None:
    """Remove the plugin NAME from your configuration, and its package."""
    from vibe_llms.interfaces.cli.consent import require_consent
    from vibe_llms.plugins.adding import find_user_entries, remove_plugin

    configuration = load_configuration()
    find_user_entries(name, configuration)  # rejects an unknown name without a question
    if not (yes or configuration.yes):
        require_consent(
            f"Remove the plugin {name} and its package?",
            remedy="Add --yes to remove it without being asked.",
        )
    for entry in remove_plugin(name, configuration):
        click.echo(f"Removed the {entry.table.removesuffix('s')} {entry.name}.")


@plugins.command("new", cls=Command)
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(["provider", "embedder", "ensemble"]),
    default="provider",
    show_default=True,
    help="Kind of plugin: models that converse, embedders over the network, or tools for models.",
)
def new(name: str, kind: str) -> None:
    """Create a plugin in the new folder NAME: a module, its tests, and metadata for pip."""
    from vibe_llms.plugins.plugin_templates import make_plugin

    for file in make_plugin(name, kind, Path()):
        click.echo(str(file))
