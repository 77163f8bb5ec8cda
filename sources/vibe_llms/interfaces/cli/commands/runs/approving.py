"""``vibe runs approve``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import command
from vibe_llms.interfaces.cli.output import note, repair, style, write
from vibe_llms.interfaces.cli.runs.run_lookup import (
    address_option,
    advise_to_resume,
    find_run,
    open_runs,
    read_logged,
    run_argument,
)

if TYPE_CHECKING:
    from vibe_llms.agents.interfaces import Runs
    from vibe_llms.invocables.approvals import Approval, ApprovalRequest
    from vibe_llms.runs.summaries import RunSummary
    from vibe_llms.runs.waiting import Waiting


@command("approve")
@run_argument
@click.option("--digest", default="", help="Call to answer, by the start of its digest.")
@click.option("--allow", is_flag=True, help="Execute the call as it is.")
@click.option("--deny", is_flag=True, help="Deny the call.")
@click.option("--edit", metavar="JSON", help="Execute the call with these arguments instead.")
@click.option("--reason", default="", help="Reason for the model, with --deny or --edit.")
@click.option(
    "--scope",
    type=click.Choice(["once", "call", "always"]),
    default="once",
    show_default=True,
    help="This call, identical calls, or all calls of this name.",
)
@address_option
async def approve(word: str, address: str, **options: Any) -> int:
    """Answer the calls that await approval in RUN, wherever it runs.

    Calls are shown in full. Without --allow, --deny or --edit you are asked about each call. If
    several people answer, the first answer applies; after a later one the exit code is 1.

    \b
        vibe runs approve abcd
        vibe runs approve abcd --deny --reason "Ask me on Monday."
    """
    decisions = [
        f"--{name}" for name in ("allow", "deny", "edit") if options[name] not in (None, False)
    ]
    if len(decisions) > 1:
        raise click.UsageError(f"{' and '.join(decisions)} contradict each other.")
    async with open_runs(address) as runs:
        summary = await find_run(runs, word)
        all_waiting = await runs.survey_approvals(summary.id)
        if not all_waiting:
            return await _report_nothing_waits(runs, summary)
        waiting = _select(all_waiting, options["digest"])
        code = await _answer_each(runs, summary.id, waiting, options)
        after = await runs.find(summary.id)
    if after.waiting:
        note(f"Still waiting: {after.waiting}.")
    else:
        note(advise_to_resume(after, address))
    return code


def _select(all_waiting: Sequence[Waiting], digest: str) -> Sequence[Waiting]:
    """Return the waiting calls whose digest has this prefix.

    Raises:
        UnknownNameError: No call has such a digest.
    """
    waiting = [each for each in all_waiting if each.request.digest.startswith(digest.lower())]
    if not waiting:
        from vibe_llms.exceptions import UnknownNameError

        known = tuple(each.request.digest for each in all_waiting)
        raise UnknownNameError(
            kind="waiting call",
            name=digest,
            known=known,
            remedy="It may have been answered already.",
        )
    return waiting


async def _answer_each(
    runs: Runs, run_id: str, waiting: Sequence[Waiting], options: dict[str, Any]
) -> ExitCode:
    from vibe_llms.interfaces.cli.keyboard import can_ask

    is_decided = options["allow"] or options["deny"] or options["edit"] is not None
    for each in waiting if is_decided or not can_ask() else ():
        _show(each.request)
    if is_decided and len(waiting) > 1:
        digests = ", ".join(each.request.digest[:12] for each in waiting)
        raise click.UsageError(
            f"Several calls await approval; choose one with --digest: {digests}."
        )
    if not is_decided and not can_ask():
        raise click.UsageError("No terminal to ask at: add --allow, --deny or --edit JSON.")
    code = ExitCode.SUCCESS
    for each in waiting:
        approval = _decide(each.request, options) if is_decided else await _ask(each.request)
        code = max(code, await _send(runs, run_id, each, approval))
    return code


def _show(request: ApprovalRequest) -> None:
    from vibe_llms.interfaces.cli.approving import write_arguments, write_head

    head = style(write_head(request), "yellow", "bold", stream=sys.stderr)
    sys.stderr.write(f"{head}\n{write_arguments(request)}\n")


async def _ask(request: ApprovalRequest) -> Approval:
    from vibe_llms.interfaces.cli.approving import ask
    from vibe_llms.interfaces.cli.keyboard import discard_typed_text

    discard_typed_text()
    _show(request)
    return await ask(request)


def _decide(request: ApprovalRequest, options: dict[str, Any]) -> Approval:
    from vibe_llms.interfaces.cli.approving import parse_arguments
    from vibe_llms.invocables.approvals import Scope, allow, deny, edit

    reason, scope = repair(options["reason"]), Scope(options["scope"])
    if options["edit"] is not None:
        if scope is not Scope.ONCE:
            raise click.UsageError("--edit applies to one call: remove --scope.")
        try:
            return edit(request, parse_arguments(repair(options["edit"])), reason)
        except ValueError as error:
            raise click.UsageError(f"--edit: {error}") from error
    if options["deny"]:
        return deny(request, reason, scope=scope)
    if reason:
        raise click.UsageError("--reason needs --deny or --edit.")
    return allow(request, scope=scope)


async def _send(runs: Runs, run_id: str, waiting: Waiting, approval: Approval) -> ExitCode:
    """Answer one call; the exit code is 1 if another answer was faster."""
    from vibe_llms.exceptions import UnknownNameError
    from vibe_llms.interfaces.cli.runs.event_texts import ANSWERED

    try:
        await runs.approve(run_id, approval, key=waiting.key)
    except UnknownNameError:
        note(f"Too late: another answer for {waiting.request.name} arrived first and applies.")
        return ExitCode.INCOMPLETE
    write(f"{ANSWERED[approval.decision]}: {waiting.request.name}")
    sys.stdout.flush()  # before messages about it
    return ExitCode.SUCCESS


async def _report_nothing_waits(runs: Runs, summary: RunSummary) -> ExitCode:
    """Report that no call is waiting, and the last answer if there was one."""
    from vibe_llms.events.engine import ApprovalAnsweredEvent
    from vibe_llms.exceptions import end_sentence
    from vibe_llms.interfaces.cli.runs.event_texts import describe_event

    note(f"No call awaits approval in {summary.id}.")
    answers = [
        each.event
        for each in await read_logged(runs, summary)
        if isinstance(each.event, ApprovalAnsweredEvent)
    ]
    if answers:
        note(end_sentence(f"The last answer: {describe_event(answers[-1])}"))
    return ExitCode.INCOMPLETE
