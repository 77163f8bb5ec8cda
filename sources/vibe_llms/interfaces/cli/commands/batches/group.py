"""``vibe batches``: batches on a runner."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("listing:list_", "List batches, the latest first."),
    "watch": ("watching:watch", "Follow a batch to its end."),
    "results": ("watching:results", "Write what there is of a batch."),
    "stop": ("stopping:stop", "Let nothing more of a batch be asked."),
    "resume": ("stopping:resume", "Let a batch go on that was stopped, or has ended."),
    "delete": ("stopping:delete", "Remove a batch with its results."),
    "convert": ("watching:convert", "Make a table of Parquet of lines."),
}
"""Where each is, and one line about it."""


@click.group(
    "batches",
    cls=LazyGroup,
    home="vibe_llms.interfaces.cli.commands.batches",
    sections={"Commands": COMMANDS},
    invoke_without_command=True,
)
@click.pass_context
def batches(context: click.Context) -> None:
    """Batches that `vibe batch --runner URL` has handed over, and that `vibe worker` performs.

    A batch is named by its id, of which the first letters are enough.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
