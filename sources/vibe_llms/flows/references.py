"""Checks of references in templates: that they exist, and are known where they are used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import Flow
from vibe_llms.flows.interpolation import Reference
from vibe_llms.flows.knowledge import Knowledge
from vibe_llms.flows.registry_contents import SOURCES_ADVICE, find_address_fault
from vibe_llms.flows.soundness import find_path, write_path
from vibe_llms.flows.tasks import CONTENT, RegistryEntry
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.suggestions import end_among, suggest
from vibe_llms.tables.paths import KeyPath

_MAX_EXAMPLES: Final = 20
"""Maximum number of example paths without a response; each costs a search of the graph."""


@frozen(kw_only=True)
class Use:
    """Reference, and the places where the flow uses it.

    Attributes:
        path: Path of the text that contains it.
        nodes: Ids of nodes that use the text.
    """

    path: KeyPath
    reference: Reference
    nodes: Sequence[str]


_MAX_SUGGESTIONS: Final = 50
"""Number of mistakes for which the nearest known word is searched."""

_MAX_LISTED: Final = 20
"""Number of known words listed if none is near."""


class ReferenceChecker:
    """Checker of references in templates.

    Args:
        registry: Entries by name, without unreadable ones; ``None`` if the registry is unreadable.
        folder: Folder of the task's file; ``None`` without a file.
        task_variables: Names of the task's own variables.
        caller_variables: Names of the caller's variables; ``None`` if unknown.
        flow: Flow of the task; ``None`` if the diagram is invalid.
        knowledge: Knowledge about responses at each node; only for a flow with a start.
    """

    def __init__(
        self,
        registry: Mapping[str, RegistryEntry | None] | None,
        folder: Path | None,
        task_variables: Collection[str],
        caller_variables: Collection[str] | None,
        flow: Flow | None,
        knowledge: Knowledge | None,
    ) -> None:
        self._registry = registry
        self._folder = folder
        self._task_variables, self._caller_variables = task_variables, caller_variables
        self._flow = flow
        self._knowledge = knowledge
        self._responding = knowledge.responding if knowledge else ()
        loops = flow.loops.values() if flow and knowledge else ()
        self._looping = frozenset[str]().union(*(each for each in loops if len(each) > 1))
        self._examples = self._suggestions = 0

    def find_faults(self, uses: Iterable[Use]) -> Iterator[tuple[KeyPath, FlowFault]]:
        """Yield the faults of references, with the path of the text."""
        for use in uses:
            for rule, message in self._check(use):
                place = use.reference
                yield (
                    use.path,
                    FlowFault(line=place.line, column=place.column, message=message, rule=rule),
                )

    def _check(self, use: Use) -> Iterator[tuple[TaskRule, str]]:
        match use.reference.source:
            case "variable":
                yield from self._check_variable(use.reference.name)
            case "registry":
                yield from self._check_registry(use.reference)
            case "response":
                yield from self._check_response(use)
            case "loop":
                yield from self._check_loop(use)

    def _check_variable(self, name: str) -> Iterator[tuple[TaskRule, str]]:
        if name in self._task_variables:
            return
        if self._caller_variables is None:
            message = f"The variable {name!r} must be set when the task is run"
            yield TaskRule.VARIABLE_LATER, message + self._among(name, sorted(self._task_variables))
        elif name not in self._caller_variables:
            message = f"Unknown variable {name!r}"
            yield (
                TaskRule.VARIABLE,
                message
                + (
                    self._among(name, sorted({*self._task_variables, *self._caller_variables}))
                    + " Set it in 'variables', or when running the task."
                ),
            )

    def _check_registry(self, reference: Reference) -> Iterator[tuple[TaskRule, str]]:
        if self._registry is None:
            return
        if reference.name not in self._registry:
            message = f"Unknown entry {reference.name!r} of the registry"
            yield TaskRule.REGISTRY, message + self._among(reference.name, self._registry)
            return
        entry = self._registry[reference.name]
        if entry is None:
            return
        fields = entry.survey_fields()
        if reference.field == CONTENT:
            if fault := find_address_fault(entry, self._folder):
                message = f"Cannot load the content of {entry.name!r}: {fault}"
                yield TaskRule.REGISTRY, f"{message} {SOURCES_ADVICE}"
        elif reference.field not in fields:
            message = f"The entry {reference.name!r} has no field {reference.field!r}"
            yield TaskRule.REGISTRY, message + self._among(reference.field, [*fields, CONTENT])
        elif not fields[reference.field]:
            message = (
                f"The field {reference.field!r} of the entry {reference.name!r} is empty: fill "
                "it in"
            )
            hint = f", or write {{{{registry:{entry.name}.content}}}}" if entry.content else ""
            yield TaskRule.REGISTRY_EMPTY, f"{message}{hint}."

    def _check_response(self, use: Use) -> Iterator[tuple[TaskRule, str]]:
        flow, knowledge, name = self._flow, self._knowledge, use.reference.name
        if flow is None or knowledge is None:
            return
        if name not in flow.nodes:
            message = f"Unknown node {name!r}"
            yield TaskRule.RESPONSE, message + self._among(name, self._responding)
            return
        if name not in self._responding:
            message = f"{name} has no response of its own"
            yield TaskRule.RESPONSE, message + self._among(name, self._responding)
            return
        nodes = [each for each in use.nodes if each in flow.dominators.immediate]
        possible = [each for each in nodes if knowledge.is_possible(name, each)]
        if nodes and not possible:
            message = f"{name} has no response yet on any path to {nodes[0]}"
            yield TaskRule.RESPONSE, f"{message}: refer to an earlier node."
        for node in possible:
            if not knowledge.is_certain(name, node):
                message = f"{name} may have no response yet when {node} is visited"
                example = self._find_example(flow, name, node)
                yield TaskRule.RESPONSE_MAYBE, f"{message}{example}: then this is empty."

    def _find_example(self, flow: Flow, speaker: str, node: str) -> str:
        self._examples += 1
        if self._examples > _MAX_EXAMPLES:
            return ""
        if speaker == node:
            return " the first time"
        path = find_path(flow, flow.start, node, without=speaker)
        return f", as on {write_path(path)}" if path else ""

    def _check_loop(self, use: Use) -> Iterator[tuple[TaskRule, str]]:
        flow = self._flow
        if flow is None or self._knowledge is None:
            return
        for node in use.nodes:
            if node in flow.dominators.immediate and node not in self._looping:
                message = f"{node} is outside of loops, so {use.reference} is not available"
                loops = list(flow.loops)
                remedy = f"lead it back to {loops[0]}" if loops else "draw a loop node"
                yield TaskRule.LOOP_OUTSIDE, f"{message}: {remedy}, or remove it."
                return

    def _among(self, name: str, known: Iterable[str]) -> str:
        """End a sentence with the nearest known word, or with all known words."""
        known = list(known)
        self._suggestions += 1
        if not known or self._suggestions > _MAX_SUGGESTIONS:
            return "."
        return end_among(name, known) if len(known) <= _MAX_LISTED else suggest(name, known)
