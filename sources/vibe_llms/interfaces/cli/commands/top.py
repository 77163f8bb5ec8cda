"""``vibe top``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.keyboard import can_ask
from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.runs.run_lookup import address_option, open_runs


@command("top")
@address_option
async def top(address: str) -> None:
    """Watch runs on a full-screen display: their states, and the events of one run.

    Answer approvals, send messages and stop runs from there. Requires Textual: install the extra
    `top`. `vibe runs` does the same with plain commands.
    """
    from vibe_llms.foundation.optional_packages import needing

    with needing("top", "textual", "`vibe top`"):
        import textual  # noqa: F401
    if not can_ask():  # it draws on standard error
        raise click.UsageError("`vibe top` needs a terminal. Use `vibe runs list`.")
    from vibe_llms.interfaces.cli.top.screen import TopApp

    async with open_runs(address) as runs:
        await runs.survey(limit=1)  # raises an error if the daemon is unreachable
        await TopApp(runs, address).run_async()
