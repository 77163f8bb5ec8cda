"""Commands that plugins add."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import click


def access_plugin_command(name: str) -> click.Command | None:
    """Returns the command of this name that a plugin has; loads the plugins."""
    from vibe_llms.interfaces.cli.access import load_configuration
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.specification.users import CommandSpecification

    manager = PluginManager(configuration=load_configuration())
    for specification in manager.survey_pieces(CommandSpecification):
        if specification.name == name:
            return _produce_command(name, specification.summary, specification.reference)
    return None


def _produce_command(name: str, summary: str, reference: str) -> click.Command:
    @click.command(
        name,
        help=summary,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def perform(arguments: tuple[str, ...]) -> int:
        return int(_access_function(name, reference)(list(arguments)) or 0)

    return perform


def _access_function(name: str, reference: str) -> Callable[[list[str]], int | None]:
    from vibe_llms.exceptions import PluginError

    module, _, attribute = reference.partition(":")
    try:
        function: Callable[[list[str]], int | None] = getattr(
            importlib.import_module(module), attribute
        )
    except (Exception, SystemExit) as error:
        from vibe_llms.plugins.loading import describe_error

        raise PluginError(
            plugin=name,
            detail=f"The command {name!r} ({reference}) cannot be loaded: {describe_error(error)}.",
        ) from error
    return function
