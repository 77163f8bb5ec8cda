"""``vibe flow``: tasks whose program is a diagram."""

from __future__ import annotations

import importlib

import click

from vibe_llms.interfaces.cli.options import Group

_HOME = "vibe_llms.interfaces.cli.commands.flow"

COMMANDS: dict[str, tuple[str, str]] = {
    "new": ("beginning:new", "Write an example, to begin a task of your own from."),
    "check": ("checking:check", "Find all that is wrong with tasks, before it costs a cent."),
    "run": ("running:run", "Run a task."),
    "show": ("showing:show", "Show where a run went, what it cost, and what was said."),
    "resume": ("resuming:resume", "Go on with a run that came to rest before its end."),
    "fork": ("forking:fork", "Run anew from a node on, with other variables."),
    "diff": ("comparing:diff", "Show what distinguishes two versions of a task."),
}
"""Where each is, and one line about it."""


class FlowGroup(Group):
    """A group that imports a command when it is performed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(f"{_HOME}.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group("flow", cls=FlowGroup, invoke_without_command=True)
@click.pass_context
def flow(context: click.Context) -> None:
    """Run tasks: a goal, a model, prompts, and a Mermaid diagram which is the program.

    `vibe flow new` lists examples, and writes one to begin from.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
