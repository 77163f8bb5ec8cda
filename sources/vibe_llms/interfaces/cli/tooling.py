"""Tools for commands: options that name ensembles, and sessions that use them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from vibe_llms.interfaces.cli.option_values import parse_controls
from vibe_llms.interfaces.cli.options import (
    APPROVER,
    ENSEMBLES,
    INVOCABLES,
    SERVER,
    SKILL,
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
    """Add the options that name ensembles, and those that allow calls without approval."""
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
            help="Approver of other calls: `terminal` (default) or a plugin's.",
        ),
        click.option(
            "--explain",
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_explain,
            help="Show the table by which the engine decides, and exit.",
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


def _explain(context: click.Context, option: click.Parameter, is_set: bool) -> None:
    if not is_set or context.resilient_parsing:  # shell completion parses the line, too
        return
    from vibe_llms.engine.table import write_table

    write("\n".join(write_table()))
    context.exit()


def split_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Split comma-separated names and remove duplicates."""
    names = (name.strip() for text in texts for name in text.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def produce_session(
    application: Application,
    conversation: Conversation,
    address: str,
    options: Mapping[str, Any],
    **settings: Any,
) -> ChatSession:
    """Build the session of a command from its options.

    Args:
        address: The address of the model; empty for the model of the conversation.
        settings: Further arguments of the session.
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
    """Configure a session by the options, connect it, and add the instructions.

    A skill among the options provides defaults for the other options.

    Raises:
        UnknownNameError: The ensemble, server, skill, approver or invocable is unknown.
        ConfigurationError: The settings of a server, or the skill, are invalid.
        TrustError: The skill is the project's, and the user does not trust it.
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
        await session.application.produce_approver()  # only to report an unknown name
    await session.open()  # before anything is stored
    ensure_allowed(options["allowed"], session.registry)
    text = "\n\n".join(each.strip() for each in instructions if each.strip())
    if text and text != session.system:  # a continued conversation already has them
        session.add_instructions(text)


def ensure_allowed(allowed: Sequence[str], registry: Registry | None) -> None:
    """Check that the names in ``--allow`` exist; a misspelled name would silently allow nothing.

    If more invocables may appear later, for example of an MCP server, only warn.

    Raises:
        UnknownNameError: An invocable does not exist.
    """
    known = [each.description.name for each in registry.survey()] if registry else []
    hidden = registry.survey_hidden() if registry else ()
    for name in split_names(allowed):
        if name != "all" and name not in known and name not in hidden:
            if registry is not None and registry.may_grow:
                _warn_of_unknown_tool(name, (*known, *hidden))
                continue
            from vibe_llms.exceptions import UnknownNameError

            raise UnknownNameError(
                kind="invocable",
                name=name,
                known=("all", *known) if known else (),
                remedy="" if known else "Name an ensemble that has them with --tools or --mcp.",
            )


def _warn_of_unknown_tool(name: str, known: Sequence[str]) -> None:
    from vibe_llms.foundation.suggestions import suggest

    note(f"--allow {name}: unknown tool{suggest(name, known)}")


async def produce_ensembles(
    application: Application, names: Sequence[str], from_option: Sequence[str]
) -> tuple[Ensemble, ...]:
    """Create ensembles; errors without a place in a file refer to the option.

    Args:
        names: All names, also those of a skill.
        from_option: The names from the option ``--tools``.

    Raises:
        ConverseError: An ensemble cannot be created.
    """
    import attrs

    from vibe_llms.exceptions import ConfigurationError

    ensembles: list[Ensemble] = []
    for name in dict.fromkeys(names):
        try:
            ensembles += await application.produce_ensembles([name])
        except ConfigurationError as error:
            if name in from_option:
                error.findings = tuple(
                    finding if finding.line else attrs.evolve(finding, place=f"--tools {name}")
                    for finding in error.findings
                )
            raise
    return tuple(ensembles)


async def _use_skill(session: ChatSession, name: str) -> Skill:
    """Use the skill's values for options that were omitted, and return the skill."""
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
        split_names(options["allowed"]), screen, policy=policy, is_stored=session.store is not None
    )
    from_option = split_names(options["tools"])
    ensemble_options = ("--tools", ",".join(names)) if names else ()
    server_options = [word for server in servers for word in ("--mcp", server)]
    session.tool_options = (*ensemble_options, *server_options)
    session.tools = await produce_ensembles(application, names, from_option)
    if servers:
        from vibe_llms.interfaces.cli.elicitation import TerminalElicitor
        from vibe_llms.interfaces.cli.keyboard import can_ask
        from vibe_llms.invocables.mcp.oauth.settings import TellingAuthorizer

        session.tools += await application.produce_mcp_ensembles(
            servers,
            approver=session.approver,
            model=await application.access_model(session.address),
            elicitor=TerminalElicitor(screen),
            authorizer=TellingAuthorizer(note) if can_ask() else None,
        )
