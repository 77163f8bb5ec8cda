"""The tools that a command is given: their options, and the ensembles that these name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vibe_llms.interfaces.cli.options import (
    APPROVER,
    ENSEMBLES,
    INVOCABLES,
    SERVER,
    SKILL,
    parse_controls,
)
from vibe_llms.interfaces.cli.output import note, write

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.conversations import Conversation
    from vibe_llms.instruments.skills import Skill
    from vibe_llms.interfaces.cli.chat.session import ChatSession
    from vibe_llms.interfaces.cli.keyboard import Screen
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.invocables.registry import Registry

_Function = TypeVar("_Function", bound=Callable[..., Any])


ensembles_option = click.option(
    "--tools",
    "-t",
    "tools",
    multiple=True,
    type=ENSEMBLES,
    metavar="NAME,...",
    help="Ensembles of tools, such as io,shell (see `vibe tools`).",
)
servers_option = click.option(
    "--mcp",
    "servers",
    multiple=True,
    type=SERVER,
    metavar="FILE|NAME",
    help="MCP servers: a file that lists some, or a configured name.",
)


def tool_options(function: _Function) -> _Function:
    """Add the options which name ensembles, and say what needs no question."""
    options = [
        ensembles_option,
        servers_option,
        click.option(
            "--allow",
            "allowed",
            multiple=True,
            type=INVOCABLES,
            metavar="NAME,...",
            help="Tools to run without approval; `all` for every one.",
        ),
        click.option(
            "--approver",
            type=APPROVER,
            metavar="NAME",
            help="Who approves other calls: `terminal`, or a plugin's.",
        ),
        click.option(
            "--explain",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_explain,
            help="Show the decision table of the engine, and exit.",
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


skill_option = click.option(
    "--skill",
    type=SKILL,
    metavar="NAME|PATH",
    help="Skill: instructions, controls and tools.",
)


def _explain(context: click.Context, option: click.Parameter, is_wanted: bool) -> None:
    if not is_wanted or context.resilient_parsing:  # a shell that completes parses the line, too
        return
    from vibe_llms.engine.table import write_table

    write("\n".join(write_table()))
    context.exit()


def split_names(given: Sequence[str]) -> tuple[str, ...]:
    """Read names that are parted by commas, each once."""
    names = (name.strip() for text in given for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def produce_session(
    application: Application,
    conversation: Conversation,
    address: str,
    options: Mapping[str, Any],
    **settings: Any,
) -> ChatSession:
    """Build the session of a command by its options.

    Args:
        address: Of the model, empty where the options name none: then it is the conversation's.
        settings: What the command has of its own.
    """
    from vibe_llms.interfaces.cli.chat.session import ChatSession

    return ChatSession(
        application=application,
        conversation=conversation,
        address=address or conversation.metadata.model or "",
        controls=parse_controls(options["controls"]),
        stream=application.configuration.stream,
        strict=options["strict"],
        **settings,
    )


async def open_session(session: ChatSession, options: Mapping[str, Any], screen: Screen) -> None:
    """Give a session what the options name, connects it, and adds the instructions.

    A skill among the options brings what the other options leave open.

    Raises:
        UnknownNameError: There is no such ensemble, server, skill, approver or invocable.
        ConfigurationError: What is said about a server does not hold, or the skill.
        TrustError: The skill is the project's, and the user has not agreed to it.
    """
    names, servers = split_names(options["tools"]), tuple(options["servers"])
    instructions = [options["system"] or ""]
    if options["skill"]:
        skill = await _use_skill(session, options["skill"])
        instructions.insert(0, skill.render())
        names, servers = (*names, *skill.ensembles), (*servers, *skill.mcp)
    if names or servers:
        await _add_tools(session, names, servers, options, screen)
    elif options["approver"]:
        await session.application.produce_approver()  # else a slip would be passed over in silence
    await session.open()  # before anything is stored
    ensure_allowed(options["allowed"], session.registry)
    text = "\n\n".join(each.strip() for each in instructions if each.strip())
    if text and text != session.system:  # who goes on has said it before
        session.instruct(text)


def ensure_allowed(allowed: Sequence[str], registry: Registry | None) -> None:
    """See to it that what ``--allow`` names is there; a slip would allow nothing in silence.

    Where there may be more invocables later, such as an MCP server adds, it is told of only.

    Raises:
        UnknownNameError: There is no such invocable among those that were given.
    """
    known = [each.description.name for each in registry.survey()] if registry else []
    ensembles = registry.ensembles if registry else ()
    growing = [each for each in ensembles if getattr(each, "may_grow", False)]
    hidden = {tool.name for each in growing for tool in getattr(each, "tools", ())}
    for name in split_names(allowed):
        if name != "all" and name not in known and name not in hidden:
            if growing:
                _tell_of_nothing_yet(name, (*known, *hidden))
                continue
            from vibe_llms.exceptions import UnknownNameError

            raise UnknownNameError(
                kind="invocable",
                name=name,
                known=("all", *known) if known else (),
                remedy="" if known else "Name an ensemble that has them with --tools or --mcp.",
            )


def _tell_of_nothing_yet(name: str, known: Sequence[str]) -> None:
    from vibe_llms.foundation.suggestions import suggest

    note(f"--allow {name}: unknown tool{suggest(name, known)}")


async def produce_ensembles(
    application: Application, names: Sequence[str], named: Sequence[str]
) -> tuple[Ensemble, ...]:
    """Build ensembles; what cannot be where somebody stands is told of the option.

    Args:
        named: Those that ``--tools`` names.

    Raises:
        ConverseError: What the application raises.
    """
    import attrs

    from vibe_llms.exceptions import ConfigurationError

    made: list[Ensemble] = []
    for name in dict.fromkeys(names):
        try:
            made += await application.produce_ensembles([name])
        except ConfigurationError as error:
            if name in named:
                error.findings = tuple(
                    finding if finding.line else attrs.evolve(finding, place=f"--tools {name}")
                    for finding in error.findings
                )
            raise
    return tuple(made)


async def _use_skill(session: ChatSession, name: str) -> Skill:
    """Let a skill fill in what was not said."""
    import asyncio

    from vibe_llms.instruments.skills import ensure_configured, find_skill

    skill = await asyncio.to_thread(find_skill, name, session.application)
    ensure_configured(skill, session.application.configuration)
    session.address = session.address or skill.model
    session.controls = {**skill.controls, **session.controls}
    session.schema = session.schema or skill.schema
    return skill


async def _add_tools(
    session: ChatSession,
    names: Sequence[str],
    servers: Sequence[str],
    options: Mapping[str, Any],
    screen: Screen,
) -> None:
    from vibe_llms.interfaces.cli.approving import TerminalApprover

    application = session.application
    policy = await application.produce_approver()
    session.approver = TerminalApprover(
        split_names(options["allowed"]), screen, policy=policy, keeps=session.store is not None
    )
    named = split_names(options["tools"])
    tools = ("--tools", ",".join(names)) if names else ()
    session.tool_options = (*tools, *(each for server in servers for each in ("--mcp", server)))
    session.tools = await produce_ensembles(application, names, named)
    if servers:
        from vibe_llms.interfaces.cli.answering import TerminalElicitor
        from vibe_llms.interfaces.cli.keyboard import can_ask
        from vibe_llms.invocables.mcp.oauth.settings import TellingAuthorizer

        session.tools += await application.produce_mcp_ensembles(
            servers,
            approver=session.approver,
            model=await application.access_model(session.address),
            elicitor=TerminalElicitor(screen),
            authorizer=TellingAuthorizer(note) if can_ask() else None,
        )
