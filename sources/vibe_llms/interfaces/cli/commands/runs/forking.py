"""``vibe runs fork``."""

from __future__ import annotations

from typing import Any

import click

from vibe_llms.interfaces.cli.commands.forking import fork as fork_conversation
from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.runs.naming import open_run, run_argument


@command("fork")
@run_argument
@click.option(
    "--from",
    "from_index",
    type=click.IntRange(min=0),
    help="How many canisters are shared; all by default. `vibe show` numbers them.",
)
@json_option
def fork(word: str, **options: Any) -> Any:
    """Begin a conversation that shares the history of RUN, and print its id.

    It is what `vibe fork` does. A flow is forked at a node: `vibe flow fork RUN NODE`.
    """
    from vibe_llms.interfaces.cli.program import compose_command

    _, summary = open_run(word)
    if summary.kind == "flow":
        command_line = compose_command("flow", "fork", summary.id, "NODE")
        raise click.UsageError(f"{summary.id} is a flow, which is forked at a node: {command_line}")
    return click.get_current_context().invoke(fork_conversation, identity=summary.id, **options)
