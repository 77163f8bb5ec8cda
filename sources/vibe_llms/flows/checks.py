"""Result of a check of a task, and the environment that the check knows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import attrs

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.faults import Severity
from vibe_llms.flows.graphs import Flow, FlowNode
from vibe_llms.flows.interpolation import Template
from vibe_llms.flows.invoking import InvocationTemplate
from vibe_llms.flows.labels import Found
from vibe_llms.flows.task_reading import TaskReading
from vibe_llms.flows.tasks import Task
from vibe_llms.flows.tool_checks import Tools
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.tables.paths import KeyPath

DIAGRAM: Final[KeyPath] = ("flow_diagram", "mermaid")


@frozen(kw_only=True)
class FlowBound:
    """Upper bounds of a run of a flow.

    Attributes:
        requests: Maximum number of model responses.
        tokens: Maximum input and output tokens; ``None`` if unknown.
        cost_cents: Maximum cost in US cents, of models with paid vendors; ``None`` if unknown.
        reasons: Why something is unknown; each completes a sentence.
        response_tokens: Maximum tokens of the final response; ``None`` if unknown.
        largest: Node with the greatest share; ``None`` if no node asks a model.
        visits: Maximum number of visits of that node.
    """

    requests: int
    tokens: int | None
    cost_cents: float | None
    reasons: tuple[str, ...] = ()
    response_tokens: int | None = 0
    largest: FlowNode | None = None
    visits: int = 0


@frozen(kw_only=True, eq=False)
class Surroundings:
    """Environment of a task when it runs; ``None`` stands for unknown.

    Attributes:
        variables: Names of the caller's variables.
        tools: Tools of its ensembles and servers, by name.
        predicates: Names of the predicates of plugins.
        checks_tools: The tools of a subflow are connected and checked after this check.
    """

    variables: Collection[str] | None = None
    tools: Tools | None = None
    predicates: Collection[str] | None = None
    checks_tools: bool = False


@frozen(kw_only=True, eq=False)
class TaskCheck:
    """Result of checking a task.

    Attributes:
        task: The task, as far as it could be read.
        reading: Source of the task, and how strictly it is checked.
        flow: Flow of the task; ``None`` if the diagram is invalid.
        templates: Templates of the prompts, in their order.
        invocations: Invocations of tool nodes, by node id.
        subflows: Checks of the tasks that subflow nodes run, by node id.
        errors: Findings with which the task does not run, including those of subflows.
        warnings: Findings with which the task runs.
        bound: Maximum requests, tokens and cost of a run, if they were computed (``bounds``).
    """

    task: Task
    reading: TaskReading
    flow: Flow | None = None
    templates: tuple[Template, ...] = ()
    invocations: Mapping[str, InvocationTemplate] = attrs.field(factory=dict)
    subflows: Mapping[str, TaskCheck] = attrs.field(factory=dict)
    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    bound: FlowBound | None = None

    def survey_parts(self) -> tuple[TaskCheck, ...]:
        """Return the task and all that it runs as subflows, each once."""
        found, pending = dict[int, TaskCheck](), [self]
        while pending:
            part = pending.pop()
            if id(part) not in found:
                found[id(part)] = part
                pending += part.subflows.values()
        return tuple(found.values())

    def add(self, errors: Iterable[Finding], warnings: Iterable[Finding] = ()) -> TaskCheck:
        """Return the check with more findings, each listed once."""
        return attrs.evolve(
            self,
            errors=sort_findings(dict.fromkeys((*self.errors, *errors))),
            warnings=sort_findings(dict.fromkeys((*self.warnings, *warnings))),
        )

    def access_flow(self) -> Flow:
        """Return the flow.

        Raises:
            ConfigurationError: The task has mistakes; lists all of them.
        """
        if self.errors or self.flow is None:
            raise ConfigurationError(findings=self.errors)
        return self.flow


def weigh(reading: TaskReading, found: Iterable[Found]) -> tuple[list[Finding], list[Finding]]:
    """Return the errors and the warnings of a task, with their places in its file."""
    errors, warnings = list[Finding](), list[Finding]()
    for path, fault in found:
        weight = fault.weight
        is_error = weight is Severity.ERROR or (weight is Severity.HARMLESS and reading.strict)
        finding = reading.find(path, fault.message, fault.line, fault.column)
        (errors if is_error else warnings).append(finding)
    return errors, warnings


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of their places."""
    return tuple(sorted(findings, key=lambda each: (each.place, each.line, each.column, each.path)))
