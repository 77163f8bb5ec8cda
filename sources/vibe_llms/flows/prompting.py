"""Which nodes say something, and what is wrong with prompts and with choices by what was said."""

from __future__ import annotations

from collections.abc import Iterator

from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import ENGAGED, Flow, NodeKind
from vibe_llms.flows.knowledge import Knowledge
from vibe_llms.flows.labels import Found
from vibe_llms.flows.tasks import Task


def survey_speaking(flow: Flow) -> list[str]:
    """Returns the ids of nodes whose visits say something."""
    return [node.id for node in flow.nodes.values() if node.kind in ENGAGED]


def find_unused_prompts(count: int, flow: Flow) -> Iterator[Found]:
    """Yields prompts that are never put."""
    used = {node.prompt for node in flow.nodes.values()}
    for index in range(count):
        if index not in used:
            message = (
                f"The prompt is never used, because the diagram has no node P{index}: draw it."
            )
            fault = FlowFault(line=0, column=0, message=message, rule=TaskRule.PROMPT_UNUSED)
            yield ("prompts", index), fault


def find_early_choices(task: Task, flow: Flow, knowledge: Knowledge) -> Iterator[FlowFault]:
    """Yields choices by what was said where nothing can have been said."""
    if any(rule.predicate for rule in task.categories.values()):
        return  # which may look at variables
    speaking = frozenset(knowledge.speaking)
    for name in flow.dominators.immediate:
        node, choices = flow.nodes[name], flow.exits[name].choices
        chooses = choices and node.kind is not NodeKind.LOOP
        if chooses and name not in speaking and not knowledge.has_any(name):
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
