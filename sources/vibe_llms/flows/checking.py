"""The check before a run: all that is wrong with a task, at once, before it costs a cent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.compiling import compile_flow
from vibe_llms.flows.faults import FlowFault, Weight
from vibe_llms.flows.graphs import Flow, NodeKind
from vibe_llms.flows.interpolation import Template, read_template
from vibe_llms.flows.invoking import InvocationTemplate, read_invocation
from vibe_llms.flows.reading import TaskReading
from vibe_llms.flows.tasks import Task
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.mermaid import Diagram, parse_diagram
from vibe_llms.tables.reading import KeyPath
from vibe_llms.values import frozen

DIAGRAM: Final[KeyPath] = ("flow_diagram", "mermaid")


@frozen(kw_only=True, eq=False)
class Surroundings:
    """What a task finds beside itself when it runs; ``None`` stands for what is not known yet.

    Attributes:
        variables: The names of those that the caller gives.
        tools: What its ensembles and servers have, by name.
        predicates: The names of those that plugins have.
    """

    variables: Collection[str] | None = None
    tools: Mapping[str, Invoker] | None = None
    predicates: Collection[str] | None = None


@frozen(kw_only=True, eq=False)
class TaskCheck:
    """What came of looking at a task.

    Attributes:
        task: As far as it could be read.
        flow: ``None`` where the diagram does not read.
        templates: Of the prompts, in their order.
        invocations: What tool nodes invoke, by their ids.
        subflows: What came of looking at the tasks that subflow nodes run, by their ids.
        errors: With any of these it does not run.
        warnings: With these it does.
    """

    task: Task
    flow: Flow | None = None
    templates: tuple[Template, ...] = ()
    invocations: Mapping[str, InvocationTemplate] = attrs.field(factory=dict)
    subflows: Mapping[str, TaskCheck] = attrs.field(factory=dict)
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def access_flow(self) -> Flow:
        """Returns the flow.

        Raises:
            ConfigurationError: There are mistakes in the task; all of them.
        """
        if self.errors or self.flow is None:
            raise ConfigurationError(findings=self.errors)
        return self.flow


def check_task(
    reading: TaskReading,
    surroundings: Surroundings = Surroundings(),  # noqa: B008  # frozen
) -> TaskCheck:
    """Looks for all that is wrong with a task: in its file, templates, diagram and graph."""
    task = reading.task
    prompts = None if "prompts" in reading.unread else len(task.prompts)
    templates = tuple(read_template(each.template) for each in task.prompts)
    found: list[tuple[KeyPath, FlowFault]] = [
        (("prompts", index, "template"), fault)
        for index, template in enumerate(templates)
        for fault in template.faults
    ]
    refused: tuple[Finding, ...] = ()
    flow, invocations = None, {}
    if "flow_diagram" not in reading.unread:
        try:
            diagram = parse_diagram(task.flow_diagram.mermaid)
        except ConfigurationError as error:
            refused = error.findings
        else:
            compilation = compile_flow(diagram, prompts=prompts)
            flow = compilation.flow
            invocations = _read_invocations(flow)
            found += [(DIAGRAM, fault) for fault in compilation.faults]
            found += [(DIAGRAM, fault) for fault in _survey_labels(invocations, diagram)]
    errors, warnings = list(reading.errors), list(reading.warnings)
    errors += [reading.find(DIAGRAM, each.message, each.line, each.column) for each in refused]
    for path, fault in found:
        is_error = fault.weight is Weight.ERROR or (
            fault.weight is Weight.HARMLESS and reading.strict
        )
        finding = reading.find(path, fault.message, fault.line, fault.column)
        (errors if is_error else warnings).append(finding)
    return TaskCheck(
        task=task,
        flow=flow,
        templates=templates,
        invocations=invocations,
        errors=_sort(errors),
        warnings=_sort(warnings),
    )


def _read_invocations(flow: Flow) -> dict[str, InvocationTemplate]:
    return {
        node.id: read_invocation(node.text)
        for node in flow.nodes.values()
        if node.kind is NodeKind.TOOL
    }


def _survey_labels(
    invocations: Mapping[str, InvocationTemplate], diagram: Diagram
) -> Iterator[FlowFault]:
    """Yields what is wrong with labels, with the places of the diagram."""
    for name, invocation in invocations.items():
        for fault in invocation.faults:
            line, column = locate_in_label(diagram, name, fault.line, fault.column)
            yield attrs.evolve(fault, line=line, column=column)


def locate_in_label(diagram: Diagram, name: str, line: int, column: int) -> tuple[int, int]:
    """Returns where in a diagram a place in the label of a node is; where it begins, at least."""
    label = diagram.nodes[name].label
    place = label.place
    if diagram.text[place.start : place.end] != label.text:
        return place.line, place.column  # with entities, or as ``@{…}``: not as it is shown
    return place.line + line - 1, column + (place.column - 1 if line == 1 else 0)


def _sort(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (each.place, each.line, each.column, each.path)))
