"""``vibe runs``: what runs, what waits, and what may be said to it."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.group import LazyGroup

COMMANDS: dict[str, tuple[str, str]] = {
    "list": ("listing:list_", "List runs, the one in which something happened last first."),
    "show": ("showing:show", "Show where a run stands, and what waits for an approval."),
    "watch": ("watching:watch", "Follow what happens in a run, from any event on."),
    "approve": ("approving:approve", "Allow, refuse or change a call that waits."),
    "send": ("saying:send", "Say something to a run; the model hears it at its next turn."),
    "stop": ("saying:stop", "End a run where it is; what has arrived stays."),
    "detach": ("saying:detach", "Let a run that was begun attached go on without watchers."),
    "resume": ("resuming:resume", "Go on with a run here."),
    "fork": ("forking:fork", "Begin a conversation that shares the history of a run."),
    "replay": ("replaying:replay", "Walk through a run as it was, without a model."),
    "diff": ("comparing:diff", "Name the first step in which two runs differ."),
    "bisect": ("comparing:bisect", "Find which of several versions changed a run."),
    "keep": ("replaying:keep", "Make a test of a run, which replays it."),
    "delete": ("deleting:delete", "Remove a run, and what was said in it."),
}
"""Where each is, and one line about it."""


@click.group(
    "runs",
    cls=LazyGroup,
    home="vibe_llms.interfaces.cli.commands.runs",
    sections={"Commands": COMMANDS},
    invoke_without_command=True,
)
@click.pass_context
def runs(context: click.Context) -> None:
    """See what runs on this machine, or with --address at an agents daemon, and speak to it.

    A run is a conversation that acts, or a flow. Its id is that of its conversation, and may be
    shortened, as long as only one begins so.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
