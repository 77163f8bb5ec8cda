"""Command ``vibe``: imports each command when it is executed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.command_table import (
    COMMANDS,
    FILE_COMMANDS,
    GROUP_HELPS,
    SUBCOMMANDS,
)
from vibe_llms.interfaces.cli.options import Group

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _access_plugin_command(name: str) -> click.Command | None:
    """Return the command of this name that a plugin adds; loads the plugins."""
    if name.startswith("-"):  # an unknown option, not a command
        return None
    from vibe_llms.interfaces.cli.access import load_configuration
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.specification.users import CommandSpecification

    manager = PluginManager(configuration=load_configuration())
    for specification in manager.survey_specifications(CommandSpecification):
        if specification.name == name:
            return _produce_plugin_command(name, specification.summary, specification.reference)
    return None


def _produce_plugin_command(name: str, summary: str, reference: str) -> click.Command:
    @click.command(
        name,
        help=summary,
        add_help_option=False,  # the plugin parses all its arguments, including this one
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
    except (Exception, SystemExit) as error:  # importing a module may exit the process
        from vibe_llms.plugins.loading import describe_error

        raise PluginError(
            plugin=name,
            detail=f"The command {name!r} ({reference}) cannot be loaded: {describe_error(error)}.",
        ) from error
    return function


_HELP = """Converse with any language model from your terminal.

Start with a small model that runs on this machine, without an account or a key:

\b
    vibe chat --yes

With a vendor's key in the environment, name a model:

\b
    vibe ask --model anthropic:claude-sonnet-5-5 "What is a queue?"

Conversations are stored; see `vibe list`.
"""

_EPILOG = "Run `vibe COMMAND --help` for the options of a command."


class LazyGroup(Group):
    """Group that imports a command only when it is executed, not for the list of commands.

    Args:
        package: The package of the commands.
        sections: Maps sections of the help to commands, each with its module and description.
        find_other: Returns another command by name, or ``None``.
    """

    def __init__(
        self,
        *,
        package: str,
        sections: Mapping[str, Mapping[str, tuple[str, str]]],
        find_other: Callable[[str], click.Command | None] = lambda name: None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._package = package
        self._sections = sections
        self._find_other = find_other
        self._entries = {
            name: entry for commands in sections.values() for name, entry in commands.items()
        }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._entries)  # without commands of plugins, which would have to be loaded

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._entries:
            return self._find_other(cmd_name)
        module, _, attribute = self._entries[cmd_name][0].partition(":")
        if not module:
            return _produce_subgroup(cmd_name)
        command = getattr(importlib.import_module(f"{self._package}.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in self._sections.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=text)
            for name, (_, text) in self._entries.items()
            if name.startswith(incomplete)
        ]
        return items if not incomplete.startswith("-") else super().shell_complete(ctx, incomplete)


def produce_group() -> LazyGroup:
    """Build the command ``vibe``."""
    return LazyGroup(
        name="vibe",
        package="vibe_llms.interfaces.cli.commands",
        sections=COMMANDS,
        find_other=_access_plugin_command,
        help=_HELP,
        epilog=_EPILOG,
        callback=_show_help,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        params=[
            click.Option(["--version", "-V"], is_flag=True, help="Show the version and exit."),
            click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
        ],
    )


def _produce_subgroup(name: str) -> LazyGroup:
    """Build a command with subcommands."""
    return LazyGroup(
        name=name,
        package=f"vibe_llms.interfaces.cli.commands.{name}",
        sections={"Commands": SUBCOMMANDS[name]},
        file_command=FILE_COMMANDS.get(name, ""),
        help=GROUP_HELPS[name],
        callback=_show_help,
        invoke_without_command=True,
    )


def _show_help(version: bool = False, debug: bool = False) -> None:
    context = click.get_current_context()
    if version:
        from vibe_llms.foundation.version import __version__

        click.echo(f"vibe-llms {__version__}")
        context.exit()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit()
