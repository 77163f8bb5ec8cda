"""Main loop of a chat, over any input and output."""

from __future__ import annotations

import click

from vibe_llms.exceptions import ContextOverflowError, ConverseError
from vibe_llms.interfaces.cli.chat.commands import perform
from vibe_llms.interfaces.cli.chat.console import ChatConsole
from vibe_llms.interfaces.cli.interrupts import run_interruptibly


async def converse(console: ChatConsole, first: str = "") -> None:
    """Converse until the user leaves.

    Args:
        first: A message from the command line; empty for none.

    Raises:
        ConverseError: An error, if the input is not interactive.
        KeyboardInterrupt: Ctrl-C was pressed, and the input is not interactive.
        UsageError: The input is empty and not interactive.
    """
    console.show_notices()
    is_empty = not first
    try:
        if first:
            await handle(console, first)
        while True:
            try:
                text = await console.input.read()
                is_empty = False
            except KeyboardInterrupt:
                if not console.input.is_interactive:
                    raise
                console.output.remark("Ctrl-D leaves; /help lists the commands.")
                continue
            await handle(console, text)
    except EOFError:
        if is_empty and not console.input.is_interactive:
            raise click.UsageError("Standard input is empty. Write one message per line.") from None


async def handle(console: ChatConsole, text: str) -> None:
    """Execute a slash command, or send the text and get the model's answer.

    Raises:
        EOFError: The user wants to leave.
    """
    try:
        # A double slash escapes a message that begins with a slash.
        if text.startswith("/") and not text.startswith("//"):
            await perform(console, text.strip())
        elif text.strip():
            message = text[1:] if text.startswith("//") else text
            await run_interruptibly(console.session.add_message(message))
            await console.answer()
    except KeyboardInterrupt:
        if not console.input.is_interactive:
            raise
        console.output.remark("Stopped.")
    except ConverseError as error:
        if not console.input.is_interactive:
            raise
        console.show_error(error)
        if isinstance(error, ContextOverflowError):
            console.output.remark("/compact continues with a summary, /new without one.")
    console.show_notices()
