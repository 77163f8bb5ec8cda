"""Page of a flow's run: its course, the messages at each node, and the cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from vibe_llms.conversations.exchange.labels import (
    describe_moment,
    describe_turn_usage,
    describe_usage,
)
from vibe_llms.conversations.exchange.pages import compose_message
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.exceptions import ConverseError
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.courses import Course, Sum, Visit, VisitState
from vibe_llms.flows.drawing import UNREACHED, annotate
from vibe_llms.flows.graphs import FlowNode
from vibe_llms.flows.number_texts import (
    MARKS,
    TIMES,
    describe_cost,
    describe_seconds,
    describe_sum,
    describe_tokens,
)
from vibe_llms.flows.pages import FlowPage, compose_flow_page, compose_mark, compose_table
from vibe_llms.flows.records import FlowRecord, read_record
from vibe_llms.flows.tasks import Task
from vibe_llms.foundation.reprs import escape
from vibe_llms.mermaid import parse_diagram
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import read_summary

_LEGEND: Final = (
    *(compose_mark(state, f"{mark} {state}") for state, mark in MARKS.items()),
    compose_mark(UNREACHED, "not reached"),
    f'<span class="line"></span>taken ({TIMES}3: three times)',
    '<span class="line thin"></span>not taken',
)


def read_run_page(store: ConversationStore, run_id: str) -> str:
    """Write the page of a stored run. Does file work.

    Raises:
        UnknownConversationError: The store has no such conversation.
        StoreError: The id is not that of a flow's run.
        ConfigurationError: The stored task is invalid.
    """
    return _RunPage(store, read_record(store, run_id)).compose()


class _RunPage:
    """Composer of the page of one run."""

    def __init__(self, store: ConversationStore, record: FlowRecord) -> None:
        self.store = store
        self.record = record
        self.task: Task = record.reading.task
        self.summary = read_summary(store, record.run_id)
        self.course = Course.read(record.log)
        self.states = self.course.states
        self.visits: dict[str, list[Visit]] = {}
        for visit in self.course.visits:
            self.visits.setdefault(visit.node, []).append(visit)
        flow = compile_flow(parse_diagram(self.task.flow_diagram.mermaid)).flow
        self.nodes: Mapping[str, FlowNode] = flow.nodes
        self.anchors = {name: f"node-{number}" for number, name in enumerate(flow.nodes)}
        self.visit_anchors = {
            id(visit): f"visit-{number}" for number, visit in enumerate(self.course.visits)
        }

    def compose(self) -> str:
        course, task, summary = self.course, self.task, self.summary
        return compose_flow_page(
            FlowPage(
                title=task.goal.description,
                mark=compose_mark(*_describe_whole(summary)),
                facts=self._survey_facts(),
                diagram=annotate(task.flow_diagram.mermaid, course, {}),  # page.css has the styles
                hint="Select a node to see its messages.",
                legend=_LEGEND,
                nodes=self.anchors,
                first=self._choose_first(),
                sections=[self._compose_node(node) for node in self.nodes.values()],
                parts=[
                    *_compose_end(course),
                    *_compose_verdicts(course),
                    self._compose_visits(),
                ],
                is_live=course.ended is None and summary.state != "broken_off",
            )
        )

    def _survey_facts(self) -> dict[str, str | None]:
        course, total = self.course, self.course.total
        usage = total.usage
        return {
            "Started": None if course.began is None else describe_moment(course.began),
            "Took": describe_seconds(course.measure()) if course.ended else None,
            "Visits": str(total.visits),
            "Used": None if usage is None else describe_usage(usage),
            "Cost": describe_cost(total.cost_cents),
            "Model": self.summary.model,
            "Run": self.record.run_id,
        }

    def _choose_first(self) -> str:
        """Return the section to show first: of a failed, active or waiting node, or the last."""
        states = self.states
        for state in (VisitState.FAILED, VisitState.RUNNING, VisitState.WAITING):
            for name in states:
                if states[name] is state and name in self.anchors:
                    return self.anchors[name]
        for visit in reversed(self.course.visits):
            if visit.conversations and visit.node in self.anchors:
                return self.anchors[visit.node]
        return next(iter(self.anchors.values()), "")

    def _compose_node(self, node: FlowNode) -> str:
        visits = self.visits.get(node.id, [])
        state = self.states.get(node.id)
        name, words = (
            (UNREACHED, "not reached") if state is None else (state, f"{MARKS[state]} {state}")
        )
        facts = " · ".join(describe_sum(Sum.of(visits)))
        title = node.text or node.id
        label = f"{title}: {state or 'never reached'}" + (f", {facts}" if facts else "")
        kind = node.kind if title == node.id else f"{node.id}, {node.kind}"
        parts = [
            f'<section class="node-details" id="{self.anchors[node.id]}" '
            f'aria-label="{escape(label)}">',
            f'<header><h2 dir="auto">{escape(title)}</h2>{compose_mark(name, words)}'
            f'<span class="kind">{escape(kind)}</span><span class="facts">{facts}</span></header>',
            *self._compose_template(node),
            *(self._compose_visit(visit, len(visits)) for visit in visits),
            "</section>",
        ]
        return "\n".join(parts)

    def _compose_template(self, node: FlowNode) -> Iterator[str]:
        prompts = self.task.prompts
        if node.prompt is not None and node.prompt < len(prompts):
            prompt = prompts[node.prompt]
            if prompt.description:
                yield f'<p class="hint">{escape(prompt.description)}</p>'
            yield (
                '<details class="folded"><summary>Prompt template</summary><pre '
                f'dir="auto">{escape(prompt.template)}</pre></details>'
            )

    def _compose_visit(self, visit: Visit, count: int) -> str:
        anchor = self.visit_anchors[id(visit)]
        finished = visit.finished
        heading = f"Visit {visit.number} of {count}" if count > 1 else "Visit"
        facts = " · ".join(describe_sum(Sum.of([visit])))
        if visit.state is VisitState.RUNNING and visit.started:
            facts = f'<time data-since="{visit.started.isoformat()}"></time>'
        mark = f"{MARKS[visit.state]} {visit.state}"
        parts = [
            f'<div class="visit" id="{anchor}"><header><h3>{heading} '
            f'{compose_mark(visit.state, mark)}</h3> <span class="facts">{facts}</span></header>',
        ]
        for purpose, identity in visit.conversations.items():
            parts += self._compose_conversation(purpose, identity)
        # Otherwise the conversation of the visit contains it already.
        if finished and finished.response and "" not in visit.conversations:
            parts.append(f'<div class="plain" dir="auto">{escape(finished.response)}</div>')
        if finished and finished.category:
            sure = f" ({finished.confidence:.0%} sure)" if finished.confidence < 1 else ""
            parts.append(
                f"<p>Chosen: <b><bdi>{escape(finished.category)}</bdi></b>{sure}. "
                f"<bdi>{escape(finished.evidence)}</bdi></p>"
            )
        if finished and finished.detail:
            parts.append(f'<p class="trouble" dir="auto">{escape(finished.detail)}</p>')
        parts.append("</div>")
        return "\n".join(parts)

    def _compose_conversation(self, purpose: str, identity: str) -> Iterator[str]:
        """Yield the messages in the conversation of a visit; those of judges are folded."""
        try:
            canisters = self.store.read(identity, tolerant=True).canisters if identity else ()
        except ConverseError:  # without messages yet, or deleted since
            canisters = ()
        messages = [
            compose_message(
                canister, self.store.contents, describe_turn_usage(canisters, index), level=4
            )
            for index, canister in enumerate(canisters)
        ]
        if purpose and messages:
            yield f'<details class="folded"><summary>{escape(f"Asked about: {purpose}")}</summary>'
        yield from messages
        if purpose and messages:
            yield "</details>"

    def _compose_visits(self) -> str:
        rows = []
        for number, visit in enumerate(self.course.visits, 1):
            anchor = self.visit_anchors[id(visit)]
            node = self.nodes.get(visit.node)
            title = (node and node.text) or visit.node
            again = f" {TIMES}{visit.number}" if visit.number > 1 else ""
            chosen = visit.finished.category if visit.finished else ""
            cells = (
                str(number),
                f'<a href="#{anchor}"><bdi>{escape(title)}</bdi></a>{again}',
                compose_mark(visit.state, f"{MARKS[visit.state]} {visit.state}"),
                f"<bdi>{escape(chosen)}</bdi>",
                _compose_time(visit),
                describe_tokens(Sum.of([visit]).tokens).removesuffix(" tokens"),
                describe_cost(Sum.of([visit]).cost_cents),
            )
            rows.append((f' data-visit="{anchor}"', cells))
        heads = {
            "#": True,
            "Node": False,
            "State": False,
            "Chosen": False,
            "Time": True,
            "Tokens": True,
            "Cost": True,
        }
        return compose_table("visits", "Visits", heads, rows)


def _compose_time(visit: Visit) -> str:
    if visit.state is VisitState.RUNNING and visit.started:
        return f'<time data-since="{visit.started.isoformat()}"></time>'
    return describe_seconds(visit.measure())


_TONES: Final = {
    "ended": VisitState.DONE,
    "failed": VisitState.FAILED,
    "broken_off": VisitState.FAILED,
    "working": VisitState.RUNNING,
}


def _describe_whole(summary: RunSummary) -> tuple[str, str]:
    """Return the state of a run, and its label."""
    state = _TONES.get(summary.tone, VisitState.WAITING)
    return state, f"{MARKS[state]} {summary.label}"


def _compose_end(course: Course) -> Iterator[str]:
    """Yield why the run stopped before the flow ended."""
    if course.ended and course.ended.detail:
        kind = "trouble" if course.ended.reason == "failed" else "plain"
        yield (
            '<section class="wide"><h2>Why it stopped</h2>'
            f'<p class="{kind}" dir="auto">{escape(course.ended.detail)}</p></section>'
        )


def _compose_verdicts(course: Course) -> Iterator[str]:
    verdicts: Sequence[Mapping[str, object]] = course.ended.verdicts if course.ended else ()
    if not verdicts:
        return
    yield '<section class="wide"><h2>Conditions of the goal</h2>\n<ul class="verdicts">'
    for each in verdicts:
        is_met = each.get("is_met") is True
        state = VisitState.DONE if is_met else VisitState.FAILED
        mark = compose_mark(state, f"{MARKS[state]} {'met' if is_met else 'not met'}")
        yield (
            f'<li>{mark} <b dir="auto">{escape(str(each.get("description", "")))}</b> '
            f'<span class="facts">{escape(str(each.get("evaluation_type", "")))}</span>'
            f'<p dir="auto">{escape(str(each.get("evidence", "")))}</p></li>'
        )
    yield "</ul></section>"
