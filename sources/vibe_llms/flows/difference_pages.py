"""Page of two versions of a task: one diagram, and the changes of each node."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from vibe_llms.flows.differences import (
    MARKS,
    Change,
    EdgeChange,
    NodeChange,
    TaskDifference,
    compare_tasks,
    draw_difference,
)
from vibe_llms.flows.pages import FlowPage, compose_flow_page, compose_mark, compose_table
from vibe_llms.flows.tasks import PromptTemplate, Task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.reprs import escape


def compose_difference_page(old: Task, new: Task) -> str:
    """Write two versions of a task as one HTML page, to be encoded as UTF-8.

    Raises:
        ConfigurationError: One of the diagrams is invalid.
    """
    difference = compare_tasks(old, new)
    anchors = {each.node: f"node-{number}" for number, each in enumerate(difference.nodes)}
    return compose_flow_page(
        FlowPage(
            title=new.goal.description,
            mark="" if difference else compose_mark("done", "no difference"),
            facts={
                "Before": old.place,
                "Now": new.place,
                "Changed besides": ", ".join(difference.others),
            },
            diagram=draw_difference(old, new, {}),
            hint="Select a marked node to see its changes.",
            legend=[compose_mark(each, f"{MARKS[each]} {each}") for each in Change],
            nodes=anchors,
            first=next(iter(anchors.values()), ""),
            sections=[_compose_node(each, anchors[each.node]) for each in difference.nodes],
            parts=[*_compose_edges(difference)],
        )
    )


def _compose_node(change: NodeChange, anchor: str) -> str:
    word = str(change.change)
    details = ", ".join(change.details)
    label = f"{change.node}: {word}" + (f", {details}" if details else "")
    parts = [
        f'<section class="node-details" id="{anchor}" aria-label="{escape(label)}">',
        f'<header><h2 dir="auto">{escape(change.node)}</h2>'
        f"{compose_mark(word, f'{MARKS[change.change]} {word}')}"
        f'<span class="facts">{escape(details)}</span></header>',
    ]
    if change.old != change.new:
        parts.append("<h3>Prompt</h3>")
        parts.append(f'<pre class="lines" dir="auto">{_compose_lines(change)}</pre>')
    parts.append("</section>")
    return "\n".join(parts)


def _compose_lines(change: NodeChange) -> str:
    return "\n".join(
        f"<{each.tag}>{escape(each.text)}</{each.tag}>" if each.tag else escape(each.text)
        for each in compare_prompts(change.old, change.new)
    )


@frozen(kw_only=True)
class _Line:
    """Line of a prompt; ``tag`` marks it as deleted or inserted."""

    tag: str
    text: str


def compare_prompts(old: PromptTemplate | None, new: PromptTemplate | None) -> Iterator[_Line]:
    """Yield the lines of both prompts, each with a mark for added, removed or unchanged."""
    tags = {"-": "del", "+": "ins", " ": ""}
    before, after = (_survey_lines(each) for each in (old, new))
    for line in difflib.ndiff(before, after):
        if line[0] in tags:  # lines with a question mark are hints of difflib
            yield _Line(tag=tags[line[0]], text=line)


def _survey_lines(prompt: PromptTemplate | None) -> list[str]:
    if prompt is None:
        return []
    role = [] if prompt.role == "user" else [f"({prompt.role})"]
    return [*role, *prompt.template.split("\n")]


def _compose_edges(difference: TaskDifference) -> Iterator[str]:
    if difference.edges:
        heads = {"From": False, "To": False, "Label": False, "": False}
        rows = [("", _compose_edge(each)) for each in difference.edges]
        yield compose_table("edges", "Edges", heads, rows)


def _compose_edge(edge: EdgeChange) -> tuple[str, str, str, str]:
    mark = compose_mark(edge.change, f"{MARKS[edge.change]} {edge.change}")
    return escape(edge.source), escape(edge.target), escape(edge.label), mark
