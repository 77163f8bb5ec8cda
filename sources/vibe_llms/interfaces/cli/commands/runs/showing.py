"""``vibe runs show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write, write_json, write_styled
from vibe_llms.interfaces.cli.runs.run_lookup import (
    address_option,
    advise_to_resume,
    compose_run_command,
    export_summary,
    find_run,
    open_runs,
    read_logged,
    run_argument,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.conversations.run_logs.log import LoggedEvent
    from vibe_llms.runs.summaries import RunSummary
    from vibe_llms.runs.waiting import Waiting

_SHOWN_EVENTS = 20


@command("show")
@run_argument
@address_option
@json_option
def show(word: str, address: str, as_json: bool) -> None:
    """Show the state, usage and last events of RUN, and the calls that await approval.

    The arguments of these calls are shown in full.
    """
    import attrs

    from vibe_llms.interfaces.cli.interrupts import run

    summary, waiting, logged = run(_read(word, address))
    if as_json:
        requests = [
            {"conversation": each.conversation_id, "key": each.key, **attrs.asdict(each.request)}
            for each in waiting
        ]
        write_json({**export_summary(summary), "requests": requests})
        return
    _write_head(summary)
    _write_events(logged, summary, address)
    _write_waiting(summary, waiting, address)


async def _read(
    word: str, address: str
) -> tuple[RunSummary, Sequence[Waiting], Sequence[LoggedEvent]]:
    async with open_runs(address) as runs:
        summary = await find_run(runs, word)
        waiting = await runs.survey_approvals(summary.id)
        return summary, waiting, await read_logged(runs, summary)


def _write_head(summary: RunSummary) -> None:
    from vibe_llms.interfaces.cli.runs.event_texts import describe_spending

    write_styled(f"{summary.id}  {summary.name}".rstrip(), "bold")
    parts = (summary.label, summary.model, describe_spending(summary))
    write(" · ".join(part for part in parts if part))
    if summary.detail:
        write(summary.detail)
    if summary.subject:
        write(f"for {summary.subject}")


def _write_events(logged: Sequence[LoggedEvent], summary: RunSummary, address: str) -> None:
    from vibe_llms.interfaces.cli.runs.event_texts import describe_logged

    lines = [line for each in logged if (line := describe_logged(each))]
    write()
    for line in lines[-_SHOWN_EVENTS:]:
        write(line)
    if len(lines) > _SHOWN_EVENTS:
        note(f"All events: {compose_run_command('watch', summary, address)}")


def _write_waiting(summary: RunSummary, waiting: Sequence[Waiting], address: str) -> None:
    from vibe_llms.interfaces.cli.approving import write_arguments, write_head

    for each in waiting:
        write()
        write_styled(write_head(each.request), "yellow", "bold")
        write(write_arguments(each.request))
        write_styled(f"digest {each.request.digest}", "dim")
    if summary.state == "broken_off":
        note(advise_to_resume(summary, address))
    if waiting:
        note(f"Answer with: {compose_run_command('approve', summary, address)}")
