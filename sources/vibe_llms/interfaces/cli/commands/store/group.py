"""``vibe store``: where conversations and runs are kept, as a whole."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "copy": ("copying:copy", "Copy a store into another, and prove that nothing was lost."),
    "compact": ("compacting:compact", "Make the logs of runs that ended long ago shorter."),
    "purge": ("purging:purge", "Remove runs that are over for so many days."),
}
"""Where each is, and one line about it."""


@click.group(
    "store",
    cls=LazyGroup,
    home="vibe_llms.interfaces.cli.commands.store",
    sections={"Commands": COMMANDS},
    invoke_without_command=True,
)
@click.pass_context
def store(context: click.Context) -> None:
    """Move the place in which conversations, runs and content are kept.

    A store is named as the setting `store` names it: `directory` for the files of this user, the
    URL of a database of PostgreSQL, or what a plugin has. A path is that of another directory.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
