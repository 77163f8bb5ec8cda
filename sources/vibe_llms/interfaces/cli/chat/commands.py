"""Slash commands: one table for execution, completion and documentation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from vibe_llms.exceptions import ConverseError, RequestError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import expand_home
from vibe_llms.interfaces.cli.chat.console import ChatConsole
from vibe_llms.interfaces.cli.chat.statuses import ChatStatus
from vibe_llms.interfaces.cli.chat.turns import describe_compaction
from vibe_llms.interfaces.cli.interrupts import run_interruptibly
from vibe_llms.interfaces.cli.output import reveal, reveal_head

Action = Callable[[ChatConsole, str], Awaitable[None]]


@frozen
class SlashCommand:
    """One slash command.

    Attributes:
        name: The name, with its slash.
        argument: The name of the argument in the help; empty if it takes none.
        summary: The effect, in one line.
        action: Function that executes it with the argument.
    """

    name: str
    argument: str
    summary: str
    action: Action


async def show_help(console: ChatConsole, argument: str) -> None:
    """List the commands and the keys."""
    rows = [(f"{item.name} {item.argument}".strip(), item.summary) for item in COMMANDS.values()]
    width = max(len(left) for left, _ in rows)
    lines = [f"{left:<{width}}  {right}" for left, right in rows]
    console.output.remark("\n".join([*lines, "", KEYS]))


async def retry(console: ChatConsole, argument: str) -> None:
    """Ask the model to answer the last message again."""
    if not console.session.conversation.canisters:
        raise RequestError(
            detail="There is nothing to answer again.", remedy="Send a message first."
        )
    if console.session.fork_before_answer():
        console.output.remark(f"Answering again in the fork {console.session.conversation.id}.")
    await console.answer()


async def continue_answer(console: ChatConsole, argument: str) -> None:
    """Continue an incomplete answer, or answer a message without one."""
    message = await console.session.prepare_continuation()
    if message:
        console.output.remark(f"Sent as your message: {message}")
    await console.answer()


async def new(console: ChatConsole, argument: str) -> None:
    """Start a new conversation."""
    former = console.session.conversation
    console.session.start_new()
    is_stored = len(former) and console.session.store
    reference = f"; the previous one is {former.id}" if is_stored else ""
    console.output.remark(f"Started a new conversation{reference}.")


async def compact(console: ChatConsole, argument: str) -> None:
    """Continue in a fork that begins with a summary; keep the last turns."""
    keep = _read_number("/compact", argument, "of turns to keep")
    is_waiting = console.session.status is ChatStatus.UNANSWERED
    try:
        part = await run_interruptibly(console.session.compact(keep))
    except KeyboardInterrupt:
        if not console.input.is_interactive:
            raise
        console.output.remark("Stopped; the conversation is unchanged.")
        return
    console.output.replay(console.session.conversation.canisters)
    console.output.remark(describe_compaction(console.session, part))
    if is_waiting:
        console.output.remark(ChatStatus.UNANSWERED.value)


async def pin(console: ChatConsole, argument: str) -> None:
    """Keep a message word for word when the conversation is compacted."""
    pinned = console.session.pin(_read_number("/pin", argument, "of a message"))
    console.output.remark(f"Pinned: {reveal_head(pinned.text) or pinned.role}")


async def unpin(console: ChatConsole, argument: str) -> None:
    """Remove all pins."""
    console.session.unpin()
    console.output.remark("No message is pinned.")


def _read_number(command: str, argument: str, meaning: str) -> int | None:
    """Return the number in an argument; ``None`` without one. Raises RequestError."""
    if not argument:
        return None
    if not (argument.isascii() and argument.isdigit() and len(argument) < 9):
        raise RequestError(
            path=command,
            detail=f"{argument!r} is not a number {meaning}.",
            remedy=f"Write {command} or, for example, {command} 4.",
        )
    return int(argument)


async def tools(console: ChatConsole, argument: str) -> None:
    """List the invocables available to the model."""
    registry = console.session.registry
    if registry is None:
        console.output.remark(
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
    console.output.remark("\n".join(lines) or "The ensembles have no tools.")


async def fork(console: ChatConsole, argument: str) -> None:
    """Continue in a fork."""
    count = len(console.session.conversation.canisters)
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
    console.session.fork(index)
    console.output.remark(f"Continuing in the fork {console.session.conversation.id}.")


async def model(console: ChatConsole, argument: str) -> None:
    """Show the model, or switch to another."""
    still = ""
    if argument:
        try:
            await run_interruptibly(console.session.switch_model(argument))
        except ConverseError as error:
            if not console.input.is_interactive:
                raise
            console.show_error(error)
            still = "still "
    console.output.remark(f"The model is {still}{console.session.model_name}.")


async def system(console: ChatConsole, argument: str) -> None:
    """Show the instructions, or add others."""
    if argument:
        console.session.add_instructions(argument)
        console.output.remark("The instructions apply from now on.")
    else:
        console.output.remark(console.session.system or "There are no instructions.")


async def name(console: ChatConsole, argument: str) -> None:
    """Show or set the conversation's name."""
    if argument:
        console.session.name(argument)
    current = console.session.conversation.metadata.name
    console.output.remark(
        f"The conversation is called {current!r}." if current else "The conversation has no name."
    )


async def file(console: ChatConsole, argument: str) -> None:
    """Attach a file to the next message."""
    _attach(console, "/file", argument)


async def image(console: ChatConsole, argument: str) -> None:
    """Attach an image to the next message."""
    _attach(console, "/image", argument)


def _attach(console: ChatConsole, command: str, argument: str) -> None:
    if not argument:
        raise RequestError(path=command, detail=f"{command} needs a path.", remedy="Name a file.")
    console.session.attach(_unquote(argument), must_be_image=command == "/image")
    console.output.remark(f"{argument} is attached to your next message.")


def _unquote(argument: str) -> str:
    """Remove the quotes that a terminal adds around a dropped path."""
    if len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "'\"":
        return argument[1:-1]
    return argument


async def usage(console: ChatConsole, argument: str) -> None:
    """Show the usage of the conversation, and its durations as far as they were measured."""
    from vibe_llms.interfaces.cli.accounting import compose_tables

    console.output.remark(compose_tables(console.session.measure()))


async def export(console: ChatConsole, argument: str) -> None:
    """Write the conversation to a file, by default Markdown, named after its id."""
    from vibe_llms.interfaces.cli.exchanging import choose_form, compose_document, save_document

    conversation, store = console.session.conversation, console.session.store
    if not conversation.canisters or store is None:
        raise RequestError(detail="There is nothing to write yet.", remedy="Send a message first.")
    path = expand_home(_unquote(argument) or f"{conversation.id}.md")
    exporter = choose_form(console.session.application.plugins, path=path)
    save_document(compose_document(store, conversation.id, exporter), path)
    console.output.remark(f"Written to {path}.")


async def tokens(console: ChatConsole, argument: str) -> None:
    """Count the tokens of the conversation."""
    if not console.session.conversation.canisters:
        console.output.remark("The conversation is empty.")
        return
    count = await run_interruptibly(console.session.count_tokens())
    about = f", give or take {count.error_tokens}" if count.error_tokens else ""
    console.output.remark(f"The conversation takes {count.tokens} tokens{about}.")


async def leave(console: ChatConsole, argument: str) -> None:
    """End the chat."""
    raise EOFError


_ALL = (
    SlashCommand("/help", "", "Show this help.", show_help),
    SlashCommand("/retry", "", "Answer again in a fork; the previous answer stays.", retry),
    SlashCommand(
        "/continue", "", "Continue an answer that was cut off or is missing.", continue_answer
    ),
    SlashCommand("/new", "", "Start a new conversation with the same instructions.", new),
    SlashCommand(
        "/compact", "[TURNS]", "Summarize the conversation, but keep the last turns.", compact
    ),
    SlashCommand("/pin", "[N]", "Keep your last message, or message N, in summaries.", pin),
    SlashCommand("/unpin", "", "Remove all pins.", unpin),
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
_ALIASES = {"/exit": "/quit"}
"""Names that users know from other programs."""

KEYS = (
    "Enter sends. Alt-Enter (or Esc, Enter), or a backslash before Enter, starts a new "
    "line;\n"
    "pasted lines stay together. Ctrl-C stops an answer and keeps its beginning. Ctrl-D "
    "leaves.\n"
    "To send a message that starts with a slash, type two: //like this."
)


async def perform(console: ChatConsole, line: str) -> None:
    """Execute a line that begins with a slash.

    Raises:
        UnknownNameError: The command is unknown.
    """
    word, _, argument = line.partition(" ")
    word = word.strip()
    command = COMMANDS.get(_ALIASES.get(word, word))
    if command is None:
        from vibe_llms.interfaces.cli.synonyms import find_command

        nearest = find_command(word, COMMANDS)
        raise UnknownNameError(
            kind="command",
            name=word,
            detail=f"Unknown command {word!r}.",
            remedy=f"Did you mean {nearest}?" if nearest else "See /help.",
        )
    await command.action(console, argument.strip())
