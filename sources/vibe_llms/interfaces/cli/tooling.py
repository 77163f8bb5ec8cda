"""The tools that a command is given: their options, and the ensembles that these name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from vibe_llms.interfaces.cli.approving import Screen
    from vibe_llms.interfaces.cli.chat.session import ChatSession

_Function = TypeVar("_Function", bound=Callable[..., Any])


def tool_options(function: _Function) -> _Function:
    """Adds the options which name ensembles, and say what needs no question."""
    options = [
        click.option(
            "--tools",
            "-t",
            "tools",
            multiple=True,
            metavar="NAME,...",
            help="Ensembles that the model may use, such as io,shell; see `vibe tools`.",
        ),
        click.option(
            "--mcp",
            "servers",
            multiple=True,
            metavar="FILE|NAME",
            help="MCP servers that the model may use: a file that names some, or one configured.",
        ),
        click.option(
            "--allow",
            "allowed",
            multiple=True,
            metavar="NAME,...",
            help="Invocables that may be executed without asking; `all` for every one.",
        ),
        click.option(
            "--explain",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_explain,
            help="Show the table by which it is decided what comes next, and exit.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def _explain(context: click.Context, option: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or context.resilient_parsing:
        return
    from vibe_llms.engine.diagrams import write_table
    from vibe_llms.interfaces.cli.output import write

    write("\n".join(write_table()))
    context.exit()


def split_names(given: Sequence[str]) -> tuple[str, ...]:
    """Reads names that are parted by commas, each once."""
    names = (name.strip() for text in given for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


async def equip(session: ChatSession, options: Mapping[str, Any], screen: Screen) -> None:
    """Gives a session the tools that the options name, and who is asked; connects nothing.

    Raises:
        UnknownNameError: There is no such ensemble, or no such server.
        ConfigurationError: What is said about a server does not hold.
    """
    names, servers = split_names(options["tools"]), options["servers"]
    if not names and not servers:
        return
    from vibe_llms.interfaces.cli.approving import TerminalApprover

    application = session.application
    session.approver = TerminalApprover(split_names(options["allowed"]), screen)
    session.tools = await application.produce_ensembles(names)
    if servers:
        from vibe_llms.interfaces.cli.answering import TerminalElicitor
        from vibe_llms.interfaces.cli.output import note
        from vibe_llms.invocables.mcp.oauth import TellingAuthorizer

        session.tools += await application.produce_mcp_ensembles(
            servers,
            approver=session.approver,
            model=await application.access_model(session.address),
            elicitor=TerminalElicitor(screen),
            authorizer=TellingAuthorizer(note),
        )
