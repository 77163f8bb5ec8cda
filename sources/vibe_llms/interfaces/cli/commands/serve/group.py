"""``vibe serve``: what it can serve."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "agents": ("agents:agents", "Own runs, which outlive whoever asked for them."),
    "gateway": ("gateway:gateway", "Answer clients of any protocol by any model."),
    "tools": ("tools:tools", "Give other programs what models may invoke, over MCP."),
}
"""Where each is, and one line about it."""


@click.group(
    "serve",
    cls=LazyGroup,
    home="vibe_llms.interfaces.cli.commands.serve",
    sections={"Commands": COMMANDS},
    invoke_without_command=True,
)
@click.pass_context
def serve(context: click.Context) -> None:
    """Serve others over HTTP, until Ctrl-C."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
