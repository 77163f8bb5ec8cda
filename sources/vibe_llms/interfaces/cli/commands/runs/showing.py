"""``vibe runs show``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vibe_llms.interfaces.cli.options import command, json_option
from vibe_llms.interfaces.cli.output import note, write, write_json, write_styled
from vibe_llms.interfaces.cli.runs.naming import export_summary, open_run, run_argument

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.runs.summaries import RunSummary
    from vibe_llms.runs.waiting import Waiting

_LATEST = 20


@command("show")
@run_argument
@json_option
def show(word: str, as_json: bool) -> None:
    """Show where RUN stands, what it used, what happened last, and what waits for an approval.

    What a call would be executed with is shown whole.
    """
    import attrs

    from vibe_llms.runs.surveying import find_waiting

    store, summary = open_run(word)
    waiting = find_waiting(store, summary.id)
    if as_json:
        asked = [
            {"conversation": each.conversation_id, "key": each.key, **attrs.asdict(each.request)}
            for each in waiting
        ]
        write_json({**export_summary(summary), "requests": asked})
        return
    _write_head(summary)
    _write_events(store, summary)
    _write_waiting(summary, waiting)


def _write_head(summary: RunSummary) -> None:
    from vibe_llms.interfaces.cli.runs.words import describe_spending, describe_state

    write_styled(f"{summary.id}  {summary.name}".rstrip(), "bold")
    parts = (describe_state(summary), summary.model, describe_spending(summary))
    write(" · ".join(part for part in parts if part))
    if summary.detail:
        write(summary.detail)
    if summary.subject:
        write(f"on behalf of {summary.subject}")


def _write_events(store: ConversationStore, summary: RunSummary) -> None:
    from vibe_llms.interfaces.cli.program import compose_command
    from vibe_llms.interfaces.cli.runs.words import describe_logged
    from vibe_llms.runs.places import produce_log

    lines = [
        line for each in produce_log(store, summary.id).read() if (line := describe_logged(each))
    ]
    write()
    for line in lines[-_LATEST:]:
        write(line)
    if len(lines) > _LATEST:
        note(f"The whole: {compose_command('runs', 'watch', summary.id)}")


def _write_waiting(summary: RunSummary, waiting: Sequence[Waiting]) -> None:
    from vibe_llms.interfaces.cli.approving import write_arguments, write_head
    from vibe_llms.interfaces.cli.program import compose_command

    for each in waiting:
        write()
        write_styled(write_head(each.request), "yellow", "bold")
        write(write_arguments(each.request))
        write_styled(f"digest {each.request.digest}", "dim")
    if waiting:
        note(f"Answer with: {compose_command('runs', 'approve', summary.id)}")
