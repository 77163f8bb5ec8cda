"""Reads, asks, stops, and goes on: the chat itself, over any input and output."""

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
    """What the user says next.

    Attributes:
        is_interactive: Whether somebody sits there who can be told of a mistake and go on.
    """

    is_interactive: bool

    async def read(self) -> str:
        """Waits for the next message or slash command.

        Raises:
            EOFError: There will be none.
            KeyboardInterrupt: The user pressed Ctrl-C while nothing was going on.
        """


@define
class PlainInput:
    """Each line of a file or a pipe; empty ones are passed over."""

    _file: TextIO
    is_interactive: bool = False

    async def read(self) -> str:
        """Returns the next line.

        Reading blocks the loop on purpose: nothing else is going on, and a thread that reads
        could not be stopped.
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
        session: What is done.
        input: Where messages come from.
        output: Where everything is shown.
    """

    session: ChatSession
    input: ChatInput
    output: ChatOutput

    async def run(self, first: str = "") -> None:
        """Converses until the user leaves.

        Args:
            first: A message that was said before the chat began.

        Raises:
            ConverseError: Something went wrong and nobody is there who could go on.
            KeyboardInterrupt: The answer was stopped and nobody is there who could go on.
            UsageError: Nothing was said, and nobody is there who could have left without a word.
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
        """Performs a slash command, or says the text and lets the model answer.

        Raises:
            EOFError: The user wants to leave.
        """
        try:
            # A message that begins with a slash is written with two.
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
        """Lets the model answer, until Ctrl-C; what came is kept either way."""
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
        """Shows what went wrong."""
        for line in compose_lines(error):
            self.output.complain(line)

    def tell_notices(self) -> None:
        """Shows what the store found on the way."""
        for notice in self.session.take_notices():
            self.output.say(notice)
