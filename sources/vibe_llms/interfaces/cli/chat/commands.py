"""Slash commands: one table for execution, completion and documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_llms.exceptions import ConverseError, RequestError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus
from vibe_llms.interfaces.cli.interrupts import run_interruptibly
from vibe_llms.interfaces.cli.output import reveal, reveal_head

if TYPE_CHECKING:
    from vibe_llms.interfaces.cli.chat.loop import ChatLoop

Action = Callable[["ChatLoop", str], Awaitable[None]]


@frozen
class SlashCommand:
    """One slash command.

    Attributes:
        name: With its slash.
        argument: Argument name for the help; empty if it takes none.
        summary: Its effect, in one line.
        action: Executes it with the argument.
    """

    name: str
    argument: str
    summary: str
    action: Action


async def show_help(loop: ChatLoop, argument: str) -> None:
    """List the commands and the keys."""
    rows = [(f"{item.name} {item.argument}".strip(), item.summary) for item in COMMANDS.values()]
    width = max(len(left) for left, _ in rows)
    lines = [f"{left:<{width}}  {right}" for left, right in rows]
    loop.output.say("\n".join([*lines, "", KEYS]))


async def retry(loop: ChatLoop, argument: str) -> None:
    """Ask the model to answer the last message again."""
    if not loop.session.conversation.canisters:
        raise RequestError(
            detail="There is nothing to answer again.", remedy="Send a message first."
        )
    if loop.session.retreat():
        loop.output.say(f"Answering again in the fork {loop.session.conversation.id}.")
    await loop.answer()


async def go_on(loop: ChatLoop, argument: str) -> None:
    """Continue an unfinished answer: cut off, interrupted, unanswered, or left by a crash."""
    said = await loop.session.prepare_continuation()
    if said:
        loop.output.say(f"Sent as your message: {said}")
    await loop.answer()


async def new(loop: ChatLoop, argument: str) -> None:
    """Start a new conversation."""
    former = loop.session.conversation
    loop.session.renew()
    kept = f"; the previous one is {former.id}" if len(former) and loop.session.store else ""
    loop.output.say(f"Started a new conversation{kept}.")


async def compact(loop: ChatLoop, argument: str) -> None:
    """Continue in a new conversation that begins with a summary of this one."""
    former = loop.session.conversation.id
    try:
        summary = await run_interruptibly(loop.session.compact())
    except KeyboardInterrupt:
        if not loop.input.is_interactive:
            raise
        loop.output.say("Stopped; the conversation is unchanged.")
        return
    loop.output.replay(loop.session.conversation.canisters)
    loop.output.say(
        f"Started the conversation {loop.session.conversation.id}, which begins with the "
        f"model's summary{summary.describe_usage()}; {former} is unchanged."
    )
    if loop.session.status is ChatStatus.UNANSWERED and len(loop.session.conversation) > 1:
        loop.output.say(ChatStatus.UNANSWERED.value)


async def tools(loop: ChatLoop, argument: str) -> None:
    """List the invocables available to the model."""
    registry = loop.session.registry
    if registry is None:
        loop.output.say(
            "The model has no tools. Start with `vibe chat --tools io` to give it some."
        )
        return
    lines = []
    for each in registry.survey():
        invoker = each.invoker
        asks = ", asks first" if invoker.needs_approval else ""
        purpose = reveal_head(invoker.description)
        lines.append(
            f"{reveal(invoker.name)}  ({each.ensemble}, {invoker.effect}{asks})  {purpose}"
        )
    loop.output.say("\n".join(lines) or "The ensembles have no tools.")


async def fork(loop: ChatLoop, argument: str) -> None:
    """Continue in a fork."""
    count = len(loop.session.conversation.canisters)
    index = count
    if argument:
        if not argument.isdigit() or int(argument) > count:
            raise RequestError(
                path="/fork",
                detail=f"{argument!r} is not a number of canisters. The fork point must be between "
                f"0 and {count}.",
                remedy="Write how many canisters the fork shares.",
            )
        index = int(argument)
    loop.session.fork(index)
    loop.output.say(f"Continuing in the fork {loop.session.conversation.id}.")


async def model(loop: ChatLoop, argument: str) -> None:
    """Show the model, or switch to another."""
    still = ""
    if argument:
        try:
            await run_interruptibly(loop.session.switch_model(argument))
        except ConverseError as error:
            if not loop.input.is_interactive:
                raise
            loop.complain(error)
            still = "still "
    loop.output.say(f"The model is {still}{loop.session.model_name}.")


async def system(loop: ChatLoop, argument: str) -> None:
    """Show the instructions, or add others."""
    if argument:
        loop.session.instruct(argument)
        loop.output.say("The instructions apply from now on.")
    else:
        loop.output.say(loop.session.system or "There are no instructions.")


async def name(loop: ChatLoop, argument: str) -> None:
    """Show or set the conversation's name."""
    if argument:
        loop.session.name(argument)
    called = loop.session.conversation.metadata.name
    loop.output.say(
        f"The conversation is called {called!r}." if called else ("The conversation has no name.")
    )


async def file(loop: ChatLoop, argument: str) -> None:
    """Attach a file to the next message."""
    _attach(loop, "/file", argument)


async def image(loop: ChatLoop, argument: str) -> None:
    """Attach an image to the next message."""
    _attach(loop, "/image", argument)


def _attach(loop: ChatLoop, command: str, argument: str) -> None:
    if not argument:
        raise RequestError(path=command, detail=f"{command} needs a path.", remedy="Name a file.")
    loop.session.attach(_unquote(argument), must_be_image=command == "/image")
    loop.output.say(f"{argument} is attached to your next message.")


def _unquote(argument: str) -> str:
    """Remove the quotes that a terminal adds around a dropped path."""
    if len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\"":
        return argument[1:-1]
    return argument


async def usage(loop: ChatLoop, argument: str) -> None:
    """Show the usage of the conversation, and its durations as far as they were measured."""
    from vibe_llms.interfaces.cli.accounting import compose_tables

    loop.output.say(compose_tables(loop.session.measure()))


async def export(loop: ChatLoop, argument: str) -> None:
    """Write the conversation to a file, by default Markdown, named after its id."""
    from vibe_llms.interfaces.cli.exchanging import choose_form, compose_document, save_document

    conversation, store = loop.session.conversation, loop.session.store
    if not conversation.canisters or store is None:
        raise RequestError(detail="There is nothing to write yet.", remedy="Send a message first.")
    path = Path(_unquote(argument) or f"{conversation.id}.md").expanduser()
    form = choose_form(loop.session.application.plugins, path=path)
    save_document(compose_document(store, conversation.id, form), path)
    loop.output.say(f"Written to {path}.")


async def tokens(loop: ChatLoop, argument: str) -> None:
    """Count the tokens of the conversation."""
    if not loop.session.conversation.canisters:
        loop.output.say("The conversation is empty.")
        return
    count = await run_interruptibly(loop.session.count_tokens())
    about = f", give or take {count.error_tokens}" if count.error_tokens else ""
    loop.output.say(f"The conversation takes {count.tokens} tokens{about}.")


async def leave(loop: ChatLoop, argument: str) -> None:
    """End the chat."""
    raise EOFError


_ALL = (
    SlashCommand("/help", "", "Show this help.", show_help),
    SlashCommand("/retry", "", "Answer again in a fork; the previous answer stays.", retry),
    SlashCommand("/continue", "", "Continue an answer that was cut off or is missing.", go_on),
    SlashCommand("/new", "", "Start a new conversation with the same instructions.", new),
    SlashCommand(
        "/compact", "", "Continue in a new conversation with a summary of this one.", compact
    ),
    SlashCommand("/tools", "", "List the model's tools.", tools),
    SlashCommand("/fork", "[N]", "Fork the conversation, or its first N canisters.", fork),
    SlashCommand("/model", "[ADDRESS]", "Show or change the model.", model),
    SlashCommand("/system", "[TEXT]", "Show the instructions, or add to them.", system),
    SlashCommand("/name", "[TEXT]", "Show or set the conversation's name.", name),
    SlashCommand("/file", "PATH", "Attach a file to your next message.", file),
    SlashCommand("/image", "PATH", "Attach a picture to your next message.", image),
    SlashCommand("/usage", "", "Show usage: tokens, cost, time.", usage),
    SlashCommand("/tokens", "", "Count the tokens of the conversation.", tokens),
    SlashCommand("/export", "[PATH]", "Export to a file: .md, .json or .html.", export),
    SlashCommand("/quit", "", "Leave; also /exit and Ctrl-D.", leave),
)
COMMANDS: dict[str, SlashCommand] = {command.name: command for command in _ALL}
_ALSO = {"/exit": "/quit"}
"""Aliases that users know from other programs."""

KEYS = (
    "Enter sends. Alt-Enter (or Esc, Enter), or a backslash before Enter, starts a new "
    "line;\n"
    "pasted lines stay together. Ctrl-C stops an answer and keeps its beginning. Ctrl-D "
    "leaves.\n"
    "To send a message that starts with a slash, type two: //like this."
)


async def perform(loop: ChatLoop, line: str) -> None:
    """Execute a line that begins with a slash.

    Raises:
        UnknownNameError: The command is unknown.
    """
    word, _, argument = line.partition(" ")
    word = word.strip()
    command = COMMANDS.get(_ALSO.get(word, word))
    if command is None:
        from vibe_llms.interfaces.cli.synonyms import find_command

        nearest = find_command(word, COMMANDS)
        raise UnknownNameError(
            kind="command",
            name=word,
            detail=f"Unknown command {word!r}.",
            remedy=f"Did you mean {nearest}?" if nearest else "See /help.",
        )
    await command.action(loop, argument.strip())
