"""Checks of a flow's tools: that tools exist, accept the given arguments, and are guarded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from vibe_llms.exceptions import RequestError
from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import Flow, FlowNode, NodeKind
from vibe_llms.flows.interpolation import Template
from vibe_llms.flows.invoking import InvocationTemplate, adapt_arguments
from vibe_llms.foundation.suggestions import end_among
from vibe_llms.invocables.invokers import Effect, Invoker

Tools = Mapping[str, Invoker]


def survey_side_effects(
    invocations: Mapping[str, InvocationTemplate], tools: Tools | None
) -> dict[str, str]:
    """Return the nodes with side effects, as far as known, each with its tool."""
    return {
        name: each.tool
        for name, each in invocations.items()
        if tools and each.tool in tools and tools[each.tool].effect is not Effect.PURE
    }


def find_tool_faults(
    flow: Flow, invocations: Mapping[str, InvocationTemplate], tools: Tools
) -> Iterator[FlowFault]:
    """Yield missing tools, invalid arguments, and side effects without a guard.

    A tool that must act only once is guarded by an approval, or by a choice on every path to it:
    otherwise the model's response is not checked before the tool acts.
    """
    guarded = _find_guarded(flow)
    for name, invocation in invocations.items():
        node = flow.nodes[name]
        invoker = tools.get(invocation.tool)
        if invoker is None:
            if invocation.tool:
                end = (
                    end_among(invocation.tool, tools)
                    if tools
                    else "; name the ensemble or server that has it in 'ensembles' or 'mcp'."
                )
                message = f"Unknown tool {invocation.tool!r}{end}"
                yield _fault(node, TaskRule.TOOL, message)
            continue
        if not invocation.faults:
            yield from (
                _fault(node, TaskRule.TOOL, each)
                for each in (
                    *_check_names(invocation, invoker),
                    *_check_values(invocation, invoker),
                )
            )
        acts_once = invoker.effect is Effect.ONCE and not invoker.needs_approval
        if acts_once and name in guarded and not guarded[name]:
            message = (
                f"{name} invokes {invoker.name}, which acts on the world regardless of the "
                "conversation: put a condition before it, or require approval."
            )
            yield _fault(node, TaskRule.UNGUARDED, message)


def _check_names(invocation: InvocationTemplate, invoker: Invoker) -> Iterator[str]:
    """Yield the faults in the names of arguments."""
    properties = invoker.schema.get("properties")
    known = list(properties) if isinstance(properties, Mapping) else []
    if invoker.schema.get("additionalProperties") is False:
        for name in invocation.arguments:
            if name not in known:
                end = end_among(name, known) if known else "; it takes no arguments."
                yield f"{invoker.name} has no argument {name!r}{end}"
    required = invoker.schema.get("required")
    if isinstance(required, Sequence) and not isinstance(required, str):
        missing = [str(name) for name in required if name not in invocation.arguments]
        if missing:
            words = " ".join(f"{name}=…" for name in missing)
            yield f"{invoker.name} needs more arguments: write {words} after its name."


def _check_values(invocation: InvocationTemplate, invoker: Invoker) -> Iterator[str]:
    """Yield the values that the tool refuses, as far as the label alone determines them."""
    properties = invoker.schema.get("properties")
    values = {
        name: value
        for name, value in invocation.arguments.items()
        if not isinstance(value, Template)
        and isinstance(properties, Mapping)
        and name in properties
    }
    places = [re.escape(f"arguments.{name}") for name in values]
    if not places:
        return
    try:
        faults = invoker.check(adapt_arguments(invocation, values, invoker.schema))
    except RequestError:  # about the schema; a visit reports it
        return
    for fault in faults:  # the others are about names and values of templates
        if re.match(rf"(?:{'|'.join(places)})(?![\w-])", fault.path):
            yield f"Invalid argument of {invoker.name}: {fault}."


def _find_guarded(flow: Flow) -> dict[str, bool]:
    """Return for each reachable node whether a choice is on every path to it."""
    found: dict[str, bool] = {}
    for name, above in flow.dominators.immediate.items():  # dominators come first
        node = flow.nodes[above]
        chooses = node.kind is not NodeKind.LOOP and bool(flow.exits[above].choices)
        found[name] = name != above and (chooses or found[above])
    return found


def _fault(node: FlowNode, rule: TaskRule, message: str) -> FlowFault:
    return FlowFault(line=node.line, column=node.column, message=message, rule=rule)
