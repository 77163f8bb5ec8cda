"""Check before a run: find all mistakes in a task at once, before it costs anything.

The rule of a finding determines its effect on a run; see ``faults.SEVERITIES``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.flows.checks import DIAGRAM, Surroundings, TaskCheck, sort_findings, weigh
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import Flow, FlowNode, NodeKind
from vibe_llms.flows.interpolation import Template, read_template
from vibe_llms.flows.invoking import InvocationTemplate, read_invocation
from vibe_llms.flows.knowledge import Knowledge
from vibe_llms.flows.labels import Found, find_label_faults, find_predicate_faults
from vibe_llms.flows.partial_reading import survey_entries, survey_names, survey_templates
from vibe_llms.flows.prompt_checks import find_early_choices, find_unused_prompts, survey_responding
from vibe_llms.flows.references import ReferenceChecker, Use
from vibe_llms.flows.soundness import find_graph_faults
from vibe_llms.flows.split_checks import find_split_faults
from vibe_llms.flows.subflows import INPUT, SubflowRefusal, find_subflow
from vibe_llms.flows.task_reading import TaskReading, examine_task
from vibe_llms.flows.tool_checks import find_tool_faults, survey_side_effects
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.files import resolve_links
from vibe_llms.mermaid import Diagram, parse_diagram
from vibe_llms.tables.paths import KeyPath

_FILES: Final = 100
"""Maximum number of tasks that one task may run as subflows, directly and indirectly."""


def check_task(reading: TaskReading, surroundings: Surroundings | None = None) -> TaskCheck:
    """Find all mistakes in a task: in its file, templates, diagram and graph.

    Subflows are checked, too; their files are read for that.
    """
    return _Checker(reading, surroundings or Surroundings(), _Trail()).check()


_Key = tuple[Path, frozenset[str]]


@define
class _Trail:
    """The files on the path to a subflow, their variables, and all finished checks."""

    files: tuple[Path, ...] = ()
    variables: frozenset[str] = frozenset()
    checks: dict[_Key, TaskCheck] = attrs.field(factory=dict)


class _Checker:
    """Checker of one task."""

    def __init__(self, reading: TaskReading, surroundings: Surroundings, trail: _Trail) -> None:
        self._reading = reading
        self._task = reading.task
        self._prompts = survey_templates(reading)
        self._surroundings = surroundings
        self._trail = trail
        self._errors = list(reading.errors)
        self._warnings = list(reading.warnings)

    def check(self) -> TaskCheck:
        task, is_read = self._task, "flow_diagram" not in self._reading.unreadable
        templates = tuple(map(read_template, self._prompts or ()))
        diagram = self._read_diagram() if is_read else None
        flow, invocations, subflows = None, {}, {}
        if diagram is not None:
            flow = self._compile(diagram)
            invocations = {
                node.id: read_invocation(node.text)
                for node in flow.nodes.values()
                if node.kind is NodeKind.TOOL
            }
            self._report(self._survey_flow(flow, diagram, invocations))
            subflows = self._check_subflows(flow)
        self._report(self._survey_templates(templates, flow, diagram, invocations))
        if self._surroundings.predicates is not None:
            self._report(find_predicate_faults(task, self._surroundings.predicates))
        return TaskCheck(
            task=task,
            reading=self._reading,
            flow=flow,
            templates=templates,
            invocations=invocations,
            subflows=subflows,
            errors=sort_findings(self._errors),
            warnings=sort_findings(self._warnings),
        )

    def _report(self, found: Iterable[Found]) -> None:
        errors, warnings = weigh(self._reading, found)
        self._errors += errors
        self._warnings += warnings

    def _read_diagram(self) -> Diagram | None:
        try:
            return parse_diagram(self._task.flow_diagram.mermaid)
        except ConfigurationError as error:
            for each in error.findings:
                message, line, column = each.message, each.line, each.column
                self._errors.append(self._reading.find(DIAGRAM, message, line, column))
            return None

    def _compile(self, diagram: Diagram) -> Flow:
        compilation = compile_flow(
            diagram, prompts=None if self._prompts is None else len(self._prompts)
        )
        self._report((DIAGRAM, fault) for fault in compilation.faults)
        return compilation.flow

    def _survey_flow(
        self, flow: Flow, diagram: Diagram, invocations: Mapping[str, InvocationTemplate]
    ) -> Iterator[Found]:
        task, surroundings = self._task, self._surroundings
        tools = surroundings.tools
        in_diagram = [
            *_survey_labels(invocations, diagram),
            *find_graph_faults(flow),
        ]
        if flow.start in flow.nodes:
            in_diagram += find_split_faults(flow, survey_side_effects(invocations, tools))
            if tools is not None:
                in_diagram += find_tool_faults(flow, invocations, tools)
        is_open = tools is None and not surroundings.checks_tools
        if invocations and is_open and not (task.ensembles or task.mcp):
            first = flow.nodes[next(iter(invocations))]
            message = f"{first.id} invokes a tool: provide it when running the task, or "
            message += "name its ensemble or server in 'ensembles' or 'mcp'."
            in_diagram.append(_fault(first, TaskRule.TOOL_LATER, message))
        yield from ((DIAGRAM, fault) for fault in in_diagram)
        categories = survey_names(self._reading, "categories", task.categories)
        yield from find_label_faults(task, categories, flow, DIAGRAM)
        yield from find_unused_prompts(len(self._prompts or ()), flow)

    def _survey_templates(
        self,
        templates: tuple[Template, ...],
        flow: Flow | None,
        diagram: Diagram | None,
        invocations: Mapping[str, InvocationTemplate],
    ) -> Iterator[Found]:
        task = self._task
        nodes: dict[int | None, list[str]] = {}
        uses: list[Use] = []
        knowledge = None
        if flow is not None and flow.start in flow.nodes:
            knowledge = Knowledge(flow, survey_responding(flow))
            early = find_early_choices(task, flow, knowledge)
            yield from ((DIAGRAM, fault) for fault in early)
        for node in flow.nodes.values() if flow is not None else ():
            nodes.setdefault(node.prompt, []).append(node.id)
        for index, template in enumerate(templates):
            path: KeyPath = ("prompts", index, "template")
            yield from ((path, fault) for fault in template.faults)
            for reference in template.references:
                uses.append(Use(path=path, reference=reference, nodes=nodes.get(index, ())))
        for name, invocation in invocations.items():
            for reference in invocation.references:
                assert diagram is not None
                line, column = _locate(diagram, name, reference.line, reference.column)
                in_diagram_reference = attrs.evolve(reference, line=line, column=column)
                uses.append(Use(path=DIAGRAM, reference=in_diagram_reference, nodes=(name,)))
        own_file = self._trail.variables | survey_names(self._reading, "variables", task.variables)
        yield from ReferenceChecker(
            survey_entries(self._reading),
            task.folder,
            own_file,
            self._surroundings.variables,
            flow,
            knowledge,
        ).find_faults(uses)

    def _check_subflows(self, flow: Flow) -> dict[str, TaskCheck]:
        found = {}
        for node in flow.nodes.values():
            if node.kind is not NodeKind.SUBFLOW:
                continue
            check = self._check_subflow(node)
            if check is None:
                continue
            found[node.id] = check
            # Several nodes may run the same task; report its mistakes once.
            self._errors += (each for each in check.errors if each not in self._errors)
            self._warnings += (each for each in check.warnings if each not in self._warnings)
        return found

    def _check_subflow(self, node: FlowNode) -> TaskCheck | None:
        task, trail = self._task, self._trail
        path = find_subflow(task.folder, node.text)
        if isinstance(path, SubflowRefusal):
            self._report([(DIAGRAM, _fault(node, TaskRule.SUBFLOW, path.message))])
            return None
        own_file = resolve_links(task.place)
        files, file = (*trail.files, own_file), resolve_links(path)
        if file in files:
            names = [each.name for each in (*files[files.index(file) :], file)]
            names_in_order = " \N{RIGHTWARDS ARROW} ".join(names)
            message = f"{names_in_order}: a task cannot run itself. Remove one of these nodes."
            self._report([(DIAGRAM, _fault(node, TaskRule.SUBFLOW, message))])
            return None
        variables = trail.variables.union(task.variables, {INPUT})
        # The variables of a file depend on the path to it: check it once for each set of
        # variables.
        key = (file, variables)
        if key not in trail.checks:
            if len(trail.checks) >= _FILES:
                message = f"The task runs more than {_FILES} other tasks; reduce them."
                self._report([(DIAGRAM, _fault(node, TaskRule.SUBFLOW, message))])
                return None
            try:
                reading = examine_task(path, strict=self._reading.strict)
            except ConfigurationError as error:
                self._errors += error.findings
                return None
            surroundings = self._surroundings
            inside = attrs.evolve(  # a subflow names its own tools
                surroundings,
                tools=None,
                checks_tools=surroundings.tools is not None or surroundings.checks_tools,
            )
            subflow_trail = _Trail(files, variables, trail.checks)
            trail.checks[key] = _Checker(reading, inside, subflow_trail).check()
        return trail.checks[key]


def _survey_labels(
    invocations: Mapping[str, InvocationTemplate], diagram: Diagram
) -> Iterator[FlowFault]:
    """Yield the faults of labels, with their places in the diagram."""
    for name, invocation in invocations.items():
        for fault in invocation.faults:
            line, column = _locate(diagram, name, fault.line, fault.column)
            yield attrs.evolve(fault, line=line, column=column)


def _locate(diagram: Diagram, name: str, line: int, column: int) -> tuple[int, int]:
    """Convert a place in a node's label to its place in the diagram, or to the label's start."""
    label = diagram.nodes[name].label
    place = label.place
    if diagram.text[place.start : place.end] != label.text:
        return place.line, place.column  # entities or ``@{…}``: the source differs from the text
    return place.line + line - 1, column + (place.column - 1 if line == 1 else 0)


def _fault(node: FlowNode, rule: TaskRule, message: str) -> FlowFault:
    return FlowFault(line=node.line, column=node.column, message=message, rule=rule)
