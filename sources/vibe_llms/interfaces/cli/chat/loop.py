"""Main loop of a chat, over any input and output."""

from __future__ import annotations

from typing import Protocol, TextIO

import click

from vibe_llms.exceptions import ContextOverflowError, ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.interfaces.cli.accounting import summarize
from vibe_llms.interfaces.cli.attachments import ensure_readable
from vibe_llms.interfaces.cli.chat.commands import perform
from vibe_llms.interfaces.cli.chat.output import ChatOutput
from vibe_llms.interfaces.cli.chat.session import INPUT_ROLES, ChatSession
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus
from vibe_llms.interfaces.cli.chat.turns import describe_waiting
from vibe_llms.interfaces.cli.errors import compose_lines
from vibe_llms.interfaces.cli.interrupts import run_interruptibly
from vibe_llms.messages.canisters import InvocationCanister
from vibe_llms.telemetry.measuring import measure_canisters


class ChatInput(Protocol):
    """Source of the user's messages.

    Attributes:
        is_interactive: Whether the user can see an error and continue.
    """

    is_interactive: bool

    async def read(self) -> str:
        """Wait for the next message or slash command.

        Raises:
            EOFError: The input has ended.
            KeyboardInterrupt: The user pressed Ctrl-C while the chat was idle.
        """


@define
class PlainInput:
    """Lines of a file or a pipe as messages; empty ones are skipped."""

    _file: TextIO
    is_interactive: bool = False

    async def read(self) -> str:
        """Return the next line.

        Reading blocks the event loop on purpose: the chat is idle, and a thread that reads could
        not be stopped.
        """
        from vibe_llms.interfaces.cli.interrupts import block

        with block():
            while line := self._file.readline():
                if line.strip():
                    return ensure_readable(line.rstrip("\r\n"), "Standard input")
        raise EOFError


@define
class ChatLoop:
    """One chat.

    Attributes:
        session: The chat's operations.
        input: Source of messages.
        output: Display.
    """

    session: ChatSession
    input: ChatInput
    output: ChatOutput

    async def run(self, first: str = "") -> None:
        """Converse until the user leaves.

        Args:
            first: A message given before the chat began.

        Raises:
            ConverseError: An error, without an interactive user to continue.
            KeyboardInterrupt: The answer was stopped, without an interactive user to continue.
            UsageError: The input was empty, without an interactive user (who may leave silently).
        """
        self.tell_notices()
        is_silent = not first
        try:
            if first:
                await self.handle(first)
            while True:
                try:
                    text = await self.input.read()
                    is_silent = False
                except KeyboardInterrupt:
                    if not self.input.is_interactive:
                        raise
                    self.output.say("Ctrl-D leaves; /help lists the commands.")
                    continue
                await self.handle(text)
        except EOFError:
            if is_silent and not self.input.is_interactive:
                raise click.UsageError(
                    "Standard input is empty. Write one message per line."
                ) from None

    async def handle(self, text: str) -> None:
        """Execute a slash command, or send the text and get the model's answer.

        Raises:
            EOFError: The user wants to leave.
        """
        try:
            # A double slash escapes a message that begins with a slash.
            if text.startswith("/") and not text.startswith("//"):
                await perform(self, text.strip())
            elif text.strip():
                said = text[1:] if text.startswith("//") else text
                await run_interruptibly(self.session.say(said))
                await self.answer()
        except KeyboardInterrupt:
            if not self.input.is_interactive:
                raise
            self.output.say("Stopped.")
        except ConverseError as error:
            if not self.input.is_interactive:
                raise
            self.complain(error)
            if isinstance(error, ContextOverflowError):
                self.output.say("/compact continues with a summary, /new without one.")
        self.tell_notices()

    async def answer(self) -> None:
        """Get the model's answer until Ctrl-C; keep the received part in either case."""
        try:
            answer = await run_interruptibly(self.session.answer(self.output))
        except KeyboardInterrupt:
            if not self.input.is_interactive:
                raise
            last = self.session.conversation.last_message
            if last is None or last.role in INPUT_ROLES:
                self.output.say("Stopped before an answer arrived; /continue asks again.")
            else:
                self.output.say(
                    "Stopped. The beginning is kept; /continue continues it, /retry answers again."
                )
            return
        if answer.waiting:
            raise describe_waiting(self.session, answer.waiting)
        if answer.cut:
            goes_on = (
                "" if self.session.status is ChatStatus.FINISHED else (" /continue continues it.")
            )
            self.output.say(f"{answer.cut}{goes_on}")
        if any(isinstance(canister, InvocationCanister) for canister in answer.canisters):
            self.output.say(summarize(measure_canisters(answer.canisters)))

    def complain(self, error: ConverseError) -> None:
        """Show an error."""
        for line in compose_lines(error):
            self.output.complain(line)

    def tell_notices(self) -> None:
        """Show the store's notices."""
        for notice in self.session.take_notices():
            self.output.say(notice)
