"""Checks of prompts, and of choices that depend on a response."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import WORKING_KINDS, Flow, NodeKind
from vibe_llms.flows.knowledge import Knowledge
from vibe_llms.flows.labels import Found
from vibe_llms.flows.tasks import Task


def survey_responding(flow: Flow) -> list[str]:
    """Return the ids of nodes whose visits produce responses."""
    return [node.id for node in flow.nodes.values() if node.kind in WORKING_KINDS]


def find_unused_prompts(count: int, flow: Flow) -> Iterator[Found]:
    """Yield prompts that are never used."""
    used_prompts = {node.prompt for node in flow.nodes.values()}
    for index in range(count):
        if index not in used_prompts:
            message = (
                f"The prompt is never used, because the diagram has no node P{index}: draw it."
            )
            fault = FlowFault(line=0, column=0, message=message, rule=TaskRule.PROMPT_UNUSED)
            yield ("prompts", index), fault


def find_early_choices(task: Task, flow: Flow, knowledge: Knowledge) -> Iterator[FlowFault]:
    """Yield choices that depend on a response before any response is possible."""
    if any(rule.predicate for rule in task.categories.values()):
        return  # predicates may look at variables
    responding = frozenset(knowledge.responding)
    for name in flow.dominators.immediate:
        node, choices = flow.nodes[name], flow.exits[name].choices
        chooses = choices and node.kind is not NodeKind.LOOP
        if chooses and name not in responding and not knowledge.has_any(name):
            message = (
                f"{name} chooses by the last response, but there is none yet: ask a prompt "
                "before it, or remove the labels."
            )
            yield FlowFault(
                line=choices[0].line,
                column=choices[0].column,
                message=message,
                rule=TaskRule.NOTHING_SAID,
            )
