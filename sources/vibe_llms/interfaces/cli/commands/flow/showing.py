"""``vibe flow show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import open_store, resolve_identity
from vibe_llms.interfaces.cli.flows.options import html_option, mermaid_option
from vibe_llms.interfaces.cli.options import FLOW_RUN, command, json_option
from vibe_llms.interfaces.cli.output import note, write, write_json, write_styled, write_table

if TYPE_CHECKING:
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.flows.courses import Course
    from vibe_llms.flows.records import FlowRecord
    from vibe_llms.runs.summaries import RunSummary


@command("show")
@click.argument("argument", metavar="[RUN]", required=False, type=FLOW_RUN)
@click.option("--run", "option_value", metavar="RUN", type=FLOW_RUN, hidden=True)
@mermaid_option
@html_option
@json_option
def show(
    argument: str | None, option_value: str | None, mermaid: bool, html: str | None, as_json: bool
) -> None:
    """Show the path of a run, the duration and cost of each node, and the goal's result.

    Without RUN, show the newest. The first letters of an id are enough if no other id begins with
    them.

    \b
        vibe flow show abcd
        vibe flow show abcd --html run.html
    """
    from vibe_llms.flows.courses import Course
    from vibe_llms.flows.drawing import annotate
    from vibe_llms.flows.records import read_record
    from vibe_llms.flows.run_pages import read_run_page
    from vibe_llms.runs.surveying import read_summary

    if argument and option_value:
        raise click.UsageError("The run is named twice: remove --run.")
    if option_value:
        note(f"--run is deprecated: pass the run as an argument: {option_value}")
    store = open_store()
    run_id = _find_run(store, argument or option_value)
    if html is not None:
        _save(read_run_page(store, run_id), html)
        return
    record = read_record(store, run_id)
    course, summary = Course.read(record.log), read_summary(store, run_id)
    if mermaid:
        write(annotate(record.reading.task.flow_diagram.mermaid, course).rstrip("\n"))
    elif as_json:
        write_json(_export(record, course, summary))
    else:
        _write_run(record, course, summary)


def _find_run(store: ConversationStore, word: str | None) -> str:
    """Resolve a run's id or a prefix of it; without one, return the newest run."""
    from vibe_llms.conversations.tags import FLOW_TAG
    from vibe_llms.exceptions import UnknownConversationError
    from vibe_llms.interfaces.cli.access import open_index

    if word:
        return resolve_identity(store, word)
    for row in open_index(store).survey(limit=1000):
        if row.tags == (FLOW_TAG,):
            return row.id
    raise UnknownConversationError(
        detail="There are no runs of flows yet.", remedy="`vibe flow run` starts one."
    )


def _save(page: str, html: str) -> None:
    from pathlib import Path

    from vibe_llms.interfaces.cli.exchanging import save_document

    save_document(page, Path(html))
    note(f"Written: {html}")


def _write_run(record: FlowRecord, course: Course, summary: RunSummary) -> None:
    from vibe_llms.flows.compiling import compile_flow
    from vibe_llms.flows.courses import VisitState
    from vibe_llms.flows.number_texts import MARKS
    from vibe_llms.interfaces.cli.flows.rows import compose_rows
    from vibe_llms.mermaid import parse_diagram

    task = record.reading.task
    ended = course.ended
    write_styled(f"{record.run_id}  {task.goal.description}", "bold")
    flow = compile_flow(parse_diagram(task.flow_diagram.mermaid)).flow
    rows = compose_rows(flow, course)
    write_table(
        [(each.head, each.state or "not reached", *each.cells) for each in rows],
        headers=("node", "state", "visits", "time", "tokens", "cost"),
        styles=("", "dim"),
    )
    write()
    write(_describe_total(course, summary.label))
    if ended is not None and ended.detail:
        write(ended.detail)
    for each in ended.verdicts if ended else ():
        state = VisitState.DONE if each.get("is_met") else VisitState.FAILED
        write(f"{MARKS[state]} {each.get('description')}: {each.get('evidence')}")


def _describe_total(course: Course, state: str) -> str:
    from vibe_llms.flows.number_texts import describe_whole

    parts = (state, *describe_whole(course.total, course.measure()))
    return " · ".join(filter(None, parts))


def _export(record: FlowRecord, course: Course, summary: RunSummary) -> dict[str, Any]:
    from vibe_llms.flows.courses import Sum

    ended, total = course.ended, course.total
    return {
        "run_id": record.run_id,
        "goal": record.reading.task.goal.description,
        "reason": ended.reason if ended else "running",
        "detail": ended.detail if ended else "",
        "limit": ended.limit if ended else "",
        "goal_met": ended.goal_met if ended else None,
        "state": summary.state,
        "label": summary.label,
        "model": summary.model,
        "began": course.began,
        "seconds": course.measure(),
        "tokens": total.tokens,
        "cost_cents": total.cost_cents,
        "edges": {str(number): count for number, count in sorted(course.edges.items())},
        "visits": [
            {
                "node": each.node,
                "visit": each.number,
                "branch": each.branch,
                "state": each.state,
                "seconds": each.measure(),
                "tokens": Sum.of([each]).tokens,
                "cost_cents": Sum.of([each]).cost_cents,
                "category": each.finished.category if each.finished else "",
                "evidence": each.finished.evidence if each.finished else "",
                "detail": each.finished.detail if each.finished else "",
                "response": each.finished.response if each.finished else None,
                "conversations": each.conversations,
            }
            for each in course.visits
        ],
        "verification": [dict(each) for each in ended.verdicts] if ended else [],
    }
