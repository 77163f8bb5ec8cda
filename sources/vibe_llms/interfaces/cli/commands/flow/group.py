"""``vibe flow``: tasks whose program is a diagram."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "new": ("beginning:new", "Write an example, to begin a task of your own from."),
    "check": ("checking:check", "Find all that is wrong with tasks, before it costs a cent."),
    "run": ("running:run", "Run a task."),
    "show": ("showing:show", "Show where a run went, what it took, and whether it met its goal."),
    "resume": ("resuming:resume", "Go on with a run that came to rest before its end."),
    "fork": ("forking:fork", "Run anew from a node on, with other variables."),
    "diff": ("comparing:diff", "Show what distinguishes two versions of a task."),
}
"""Where each is, and one line about it."""


@click.group(
    "flow",
    cls=LazyGroup,
    home="vibe_llms.interfaces.cli.commands.flow",
    sections={"Commands": COMMANDS},
    invoke_without_command=True,
)
@click.pass_context
def flow(context: click.Context) -> None:
    """Run tasks: a goal, a model, prompts, and a Mermaid diagram which is the program.

    `vibe flow new` lists examples, and writes one to begin from.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
