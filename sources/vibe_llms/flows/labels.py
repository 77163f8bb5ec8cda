"""Checks of the labels of edges against the categories of the task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import Flow, FlowEdge, NodeKind
from vibe_llms.flows.response_search import normalize
from vibe_llms.flows.tasks import EvaluationType, Task
from vibe_llms.foundation.suggestions import end_among, find_nearest
from vibe_llms.tables.paths import KeyPath

_MAX_COMPARED: Final = 50
"""Maximum number of words that are compared with a possibly misspelt one."""

Found = tuple[KeyPath, FlowFault]


def survey_choices(flow: Flow) -> Iterator[FlowEdge]:
    """Yield the edges that are chosen by a response; loops choose by the targets of edges."""
    for name, exits in flow.exits.items():
        if flow.nodes[name].kind is not NodeKind.LOOP:
            yield from exits.choices


def find_label_faults(
    task: Task, categories: Iterable[str], flow: Flow, diagram: KeyPath
) -> Iterator[Found]:
    """Yield labels, categories and expected categories that do not match each other.

    Args:
        categories: Names of the task's categories, including unreadable ones.
        diagram: Path of the diagram in the file.
    """
    # Reversed, so that the first of equal labels counts.
    edges = {normalize(edge.label): edge for edge in reversed([*survey_choices(flow)])}
    rules = {normalize(name): name for name in categories}
    expected = {
        normalize(str(condition.expected_value)): index
        for index, condition in enumerate(task.goal.target_conditions)
        if condition.evaluation_type is EvaluationType.CATEGORY_MATCH
    }
    unused = {name: rules[name] for name in rules if name not in edges}
    suggested: set[str] = set()
    for label, edge in edges.items():
        near = _find_near(label, unused) if label not in rules else None
        if near is not None:
            suggested.add(near)
            message = f"Unknown category {edge.label!r}; did you mean {rules[near]!r}?"
            yield diagram, _fault(message, TaskRule.LABEL, edge.line, edge.column)
    known = {**rules, **{label: edge.label for label, edge in edges.items()}}
    for name, index in expected.items():
        near = _find_near(name, known) if name not in known else None
        if near is not None:
            suggested.add(near)
            message = f"No category or edge has this name; did you mean {known[near]!r}?"
            path = ("goal", "target_conditions", index, "expected_value")
            yield path, _fault(message, TaskRule.LABEL)
    for name in unused:
        if name not in expected and name not in suggested:
            message = (
                "No edge has this label, and no condition expects it: label an edge, or remove "
                "the category."
            )
            yield ("categories", rules[name]), _fault(message, TaskRule.CATEGORY)


def find_predicate_faults(task: Task, known: Iterable[str]) -> Iterator[Found]:
    """Yield predicates that no plugin has."""
    known = frozenset(known)
    uses: list[tuple[KeyPath, str]] = [
        (("categories", name, "predicate"), rule.predicate)
        for name, rule in task.categories.items()
        if rule.predicate
    ]
    uses += [
        (("goal", "target_conditions", index, "expected_value"), str(each.expected_value))
        for index, each in enumerate(task.goal.target_conditions)
        if each.evaluation_type is EvaluationType.CUSTOM
    ]
    for path, name in uses:
        if name not in known:
            end = end_among(name, known) if known else "; no plugin provides any."
            yield path, _fault(f"Unknown predicate {name!r}{end}", TaskRule.PREDICATE)


def _find_near(name: str, known: Iterable[str]) -> str | None:
    known = list(known)
    return find_nearest(name, known) if len(known) <= _MAX_COMPARED else None


def _fault(message: str, rule: TaskRule, line: int = 0, column: int = 0) -> FlowFault:
    return FlowFault(line=line, column=column, message=message, rule=rule)
