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
        first: A message given before the chat began.

    Raises:
        ConverseError: An error, without an interactive user to continue.
        KeyboardInterrupt: The answer was stopped, without an interactive user to continue.
        UsageError: The input was empty, without an interactive user (who may leave silently).
    """
    console.tell_notices()
    is_silent = not first
    try:
        if first:
            await handle(console, first)
        while True:
            try:
                text = await console.input.read()
                is_silent = False
            except KeyboardInterrupt:
                if not console.input.is_interactive:
                    raise
                console.output.say("Ctrl-D leaves; /help lists the commands.")
                continue
            await handle(console, text)
    except EOFError:
        if is_silent and not console.input.is_interactive:
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
            said = text[1:] if text.startswith("//") else text
            await run_interruptibly(console.session.say(said))
            await console.answer()
    except KeyboardInterrupt:
        if not console.input.is_interactive:
            raise
        console.output.say("Stopped.")
    except ConverseError as error:
        if not console.input.is_interactive:
            raise
        console.complain(error)
        if isinstance(error, ContextOverflowError):
            console.output.say("/compact continues with a summary, /new without one.")
    console.tell_notices()
