"""Checks of a task and its subflows that need the configuration and the models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from vibe_llms.exceptions import ConverseError, Finding, UnknownNameError
from vibe_llms.flows.checks import DIAGRAM, TaskCheck, weigh
from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.interpolation import Template
from vibe_llms.flows.labels import Found
from vibe_llms.flows.refusals import asks_model, find_refusals
from vibe_llms.flows.registry_contents import SOURCES_ADVICE, find_file_fault, survey_contents
from vibe_llms.flows.tasks import SCRIPTED, Task
from vibe_llms.flows.tool_checks import Tools, find_tool_faults
from vibe_llms.flows.unknown_names import find_unknown_names
from vibe_llms.messages.identities import access_now
from vibe_llms.tables.paths import KeyPath
from vibe_llms.telemetry.prices import OWN_MACHINES

if TYPE_CHECKING:
    from vibe_llms.application import Application
    from vibe_llms.invocables.registry import Registry


class Connect(Protocol):
    """Function that connects the tools of a task."""

    def __call__(self, task: Task) -> AbstractAsyncContextManager[Registry]: ...


def check_requests(
    check: TaskCheck, application: Application, model: str | None, *, has_tools: bool
) -> TaskCheck:
    """Add findings about requests that the models of the tasks would refuse. Reads files.

    Args:
        model: Model to use instead of those of the tasks.
        has_tools: Whether models are offered tools that no task names.
    """
    if check.errors:
        return check
    for part in check.survey_parts():
        unknown = list(
            find_unknown_names(
                part.reading, application.configuration, uses_own_model=model is None
            )
        )
        offers = has_tools or bool(part.task.ensembles or part.task.mcp)
        if unknown:
            check = check.add(unknown)
        elif asks_model(part):
            check = check.add(*_find_refusals(part, application, model, has_tools=offers))
    return check


def check_files(check: TaskCheck, *, has_tools: bool) -> TaskCheck:
    """Add findings about unreadable files that prompts insert. Reads them.

    A missing file is not reported if a tool may still write it, or if the node has an edge for
    failures.
    """
    if check.errors:
        return check
    for part in check.survey_parts():
        may_be_created = has_tools or bool(part.task.ensembles or part.task.mcp)
        check = check.add(
            *weigh(part.reading, _find_unreadable(part, may_be_created=may_be_created))
        )
    return check


def _find_unreadable(part: TaskCheck, *, may_be_created: bool) -> Iterator[Found]:
    flow, templates = part.access_flow(), list[Template]()
    for node in flow.nodes.values():
        if flow.exits[node.id].error is not None:
            continue
        invocation = part.invocations.get(node.id)
        if node.prompt is not None:
            templates.append(part.templates[node.prompt])
        elif invocation is not None:
            values = invocation.arguments.values()
            templates += (each for each in values if isinstance(each, Template))
    used_names = survey_contents(templates)
    for index, entry in enumerate(part.task.resource_registry.entries):
        if entry.name not in used_names:
            continue
        if fault := find_file_fault(entry, part.task.folder, may_be_created=may_be_created):
            message = f"Cannot read the content of {entry.name!r}: {fault} {SOURCES_ADVICE}"
            path: KeyPath = ("resource_registry", "entries", index, "source_url")
            yield path, FlowFault(line=0, column=0, message=message, rule=TaskRule.REGISTRY)


def _find_refusals(
    part: TaskCheck, application: Application, model: str | None, *, has_tools: bool
) -> tuple[list[Finding], list[Finding]]:
    try:
        address = application.resolve_address(model or part.task.resource_llm.address)
        attributes = application.catalogue.access_attributes(address)
    except UnknownNameError as error:
        if model is not None:
            raise
        return [part.reading.find(("resource_llm", "model"), str(error))], []
    found = find_refusals(
        part,
        attributes,
        application.controls,
        has_tools=has_tools,
        today=access_now().date(),
    )
    return weigh(part.reading, found)


async def check_models(check: TaskCheck, application: Application, model: str | None) -> TaskCheck:
    """Add findings about models that their providers certainly do not have.

    Only models whose access sends no request, and fetches and loads nothing, are accessed.
    """
    if check.errors:
        return check
    for part in check.survey_parts():
        llm = part.task.resource_llm
        address = application.resolve_address(model or llm.address)
        if not asks_model(part) or address.provider in OWN_MACHINES - {SCRIPTED}:
            continue
        try:
            await application.access_model(str(address))
        except ConverseError as error:
            # Anything else that is missing may exist where the task runs.
            if isinstance(error, UnknownNameError) or address.provider == SCRIPTED:
                findings = [part.reading.find(("resource_llm", "model"), str(error))]
                check = check.add(findings)
    return check


async def check_tools(check: TaskCheck, connect: Connect) -> TaskCheck:
    """Add findings about missing tools of subflows, and about invalid arguments.

    The tools of the subflows are connected for that.
    """
    for part in check.survey_parts():
        flow = part.flow
        if part is check or flow is None or not part.invocations:
            continue
        try:
            async with connect(part.task) as registry:
                tools: Tools = {each.invoker.name: each.invoker for each in registry.survey()}
        except ConverseError as error:
            check = check.add([Finding(place=part.reading.document.place, message=str(error))])
            continue
        faults = find_tool_faults(flow, part.invocations, tools)
        check = check.add(*weigh(part.reading, ((DIAGRAM, fault) for fault in faults)))
    return check
