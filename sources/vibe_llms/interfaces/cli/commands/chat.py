"""``vibe chat``: a conversation in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import (
    load_application_and_address,
    restore_conversation,
    survey_addresses,
)
from vibe_llms.interfaces.cli.options import (
    command,
    continue_option,
    model_options,
)
from vibe_llms.interfaces.cli.output import note
from vibe_llms.interfaces.cli.program import compose_command
from vibe_llms.interfaces.cli.tooling import (
    open_session,
    produce_session,
    skill_option,
    tool_options,
)

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.interfaces.cli.chat.console import ChatConsole, ChatInput
    from vibe_llms.interfaces.cli.chat.output import ChatOutput
    from vibe_llms.interfaces.cli.chat.session import ChatSession


@command("chat")
@click.argument("first", nargs=-1, metavar="[MESSAGE]...")
@continue_option
@skill_option
@tool_options
@model_options
async def chat(first: tuple[str, ...], continued: str | None, **options: Any) -> None:
    """Converse in the terminal.

    Enter sends; Alt-Enter starts a new line. Ctrl-C stops an answer and keeps its beginning; Ctrl-D
    leaves. /help lists the commands.

    If standard input is not a terminal, each of its lines is one message, and the answers are
    written as plain text.
    """
    import sys

    from vibe_llms.interfaces.cli.chat.loop import converse

    console = _produce_console(continued, options)
    async with console.session:
        await open_session(console.session, options, console.output)
        if console.input.is_interactive:
            _greet(console)
        await converse(console, " ".join(first))
    if console.input.is_interactive and len(console.session.conversation):
        identity = console.session.conversation.id
        note(
            f"Kept as {identity}; continue with: {compose_command('chat', '--continue', identity)}"
        )
    sys.stdout.flush()


def _produce_console(continued: str | None, options: dict[str, Any]) -> ChatConsole:
    import sys

    from vibe_llms.interfaces.cli.chat.console import ChatConsole, PlainInput
    from vibe_llms.interfaces.cli.chat.output import PlainOutput
    from vibe_llms.telemetry.odometer import Odometer

    application, address = load_application_and_address(options)
    conversation = restore_conversation(application.store, continued)
    session = produce_session(
        application,
        conversation,
        address,
        options,
        store=application.store,
        odometer=Odometer(),
    )
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return ChatConsole(
        session,
        _produce_input(application) if is_terminal else PlainInput(sys.stdin),
        _produce_output() if is_terminal else PlainOutput(sys.stdout, sys.stderr),
    )


def _produce_input(application: Application) -> ChatInput:
    from vibe_llms.interfaces.cli.chat.prompting import TerminalInput

    configuration = application.configuration
    history = configuration.data_directory / "chat-history"
    return TerminalInput(history, lambda: survey_addresses(configuration))


def _produce_output() -> ChatOutput:
    import os
    import sys

    if os.environ.get("TERM") == "dumb":  # it cannot rewrite lines
        from vibe_llms.interfaces.cli.chat.output import PlainOutput

        return PlainOutput(sys.stdout, sys.stderr)
    from vibe_llms.interfaces.cli.chat.terminal import TerminalOutput

    return TerminalOutput()


def _greet(console: ChatConsole) -> None:
    from vibe_llms.interfaces.cli.chat.statuses import ChatStatus

    console.output.replay(console.session.conversation.canisters)
    status = console.session.status
    if status is not ChatStatus.FINISHED:
        console.output.remark(status.value)
    console.output.remark(f"{console.session.model_name} · /help for commands, Ctrl-D to leave")
    if notice := _find_notice(console.session):
        console.output.remark(notice)
        console.output.remark(
            "To use another: vibe chat --model PROVIDER:NAME (vibe providers lists them)"
        )


def _find_notice(session: ChatSession) -> str:
    """Return the notice for users in the data of a model; loads no provider."""
    from vibe_llms.exceptions import ConverseError

    application = session.application
    try:
        address = application.resolve_address(session.model_name)
        if not address.name:
            address = application.catalogue.resolve_address(address.provider)
        notice = application.catalogue.access_attributes(address).access_value("notice")
    except ConverseError:  # reported at the first question
        return ""
    return str(notice or "")
