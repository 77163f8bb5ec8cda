"""``vibe runs resume``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command, consent_option, model_option
from vibe_llms.interfaces.cli.output import note
from vibe_llms.interfaces.cli.runs.run_lookup import (
    address_option,
    find_run,
    open_run,
    open_runs,
    run_argument,
)
from vibe_llms.interfaces.cli.tooling import open_session, produce_session, tool_options

if TYPE_CHECKING:
    from vibe_llms.interfaces.cli.chat.session import ChatSession
    from vibe_llms.runs.summaries import RunSummary


@command("resume")
@run_argument
@model_option("the run's")
@tool_options
@consent_option
@address_option
def resume(word: str, address: str, **options: Any) -> int:
    """Resume RUN in this process with the same model; no answered request is sent again.

    New messages and approvals are read first. Use --tools and --mcp to name the tools that the run
    still has to call; if one is missing, the run does not start. For flows, `vibe flow resume` has
    more options. With --address, the daemon resumes the run with its own tools.
    """
    if address:
        return _resume_remotely(word, address, options)
    _, summary = open_run(word)
    if summary.kind == "flow":
        return _resume_flow(summary, options)
    return _resume_conversation(summary, options)


def _resume_remotely(word: str, address: str, options: dict[str, Any]) -> int:
    from vibe_llms.interfaces.cli.interrupts import run

    if any(value for name, value in options.items() if name != "yes"):
        raise click.UsageError(
            "--address takes no other options: the run continues as it was requested."
        )

    async def work() -> None:
        async with open_runs(address) as runs:
            summary = await find_run(runs, word)
            await runs.resume(summary.id)

    run(work())
    note("The daemon resumes the run.")
    return ExitCode.SUCCESS


def _resume_flow(summary: RunSummary, options: dict[str, Any]) -> int:
    from vibe_llms.interfaces.cli.commands.flow.resuming import resume as resume_flow

    code = click.get_current_context().invoke(resume_flow, identity=summary.id, **options)
    return int(code or ExitCode.SUCCESS)


def _resume_conversation(summary: RunSummary, options: dict[str, Any]) -> int:
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.interfaces.cli.access import load_application_and_address
    from vibe_llms.interfaces.cli.chat.output import PlainOutput
    from vibe_llms.interfaces.cli.chat.turns import continue_run
    from vibe_llms.interfaces.cli.interrupts import run
    from vibe_llms.interfaces.cli.program import compose_command
    from vibe_llms.runs.surveying import read_summary

    options = {**options, "provider": None, "controls": (), "strict": False}
    options |= {"system": None, "skill": None}
    application, address = load_application_and_address(options)
    store = application.store
    conversation = Conversation.restore(store, summary.id)
    session = produce_session(
        application, conversation, address or summary.model, options, store=store
    )
    output = PlainOutput(sys.stdout, sys.stderr)

    async def work() -> None:
        async with session:
            await open_session(session, options, output)
            _ensure_tools(session)
            await continue_run(session, output)

    run(work())
    sys.stdout.flush()
    after = read_summary(store, summary.id)
    if after.state == "waiting":
        note(f"It awaits approval. Answer with: {compose_command('runs', 'approve', summary.id)}")
        return ExitCode.CONSENT
    return ExitCode.LIMIT if after.reason == "limit" else ExitCode.SUCCESS


def _ensure_tools(session: ChatSession) -> None:
    """Check that the tools of the run's open calls exist.

    Otherwise the engine would report to the model that they are missing.

    Raises:
        RequestError: A tool is missing.
    """
    from vibe_llms.engine.tails import read_tail
    from vibe_llms.exceptions import RequestError, Stage

    canisters = session.conversation.canisters
    open_calls = read_tail(canisters).pending_calls if canisters else ()
    registry = session.registry
    known = {each.description.name for each in registry.survey()} if registry else set()
    missing = sorted({call.name for call in open_calls} - known)
    if missing:
        raise RequestError(
            path="tools",
            detail=f"{session.conversation.id} still has to call {', '.join(missing)}, which is "
            "missing here.",
            remedy="Name its ensemble with --tools or --mcp, or resume where it was started.",
            stage=Stage.EXECUTE,
        )
