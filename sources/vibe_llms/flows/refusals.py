"""Checks of a task's model: requests that the model would refuse, and whether it still exists.

Uses only known data about the model: sends no request and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from vibe_llms.exceptions import ControlError
from vibe_llms.flows.checks import TaskCheck
from vibe_llms.flows.faults import FlowFault, TaskRule
from vibe_llms.flows.graphs import NodeKind
from vibe_llms.flows.labels import Found
from vibe_llms.flows.tasks import EvaluationType
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.models.attributes import Capability, ModelAttributes
from vibe_llms.models.controls import check_controls
from vibe_llms.models.retirement import find_retirement
from vibe_llms.tables.paths import KeyPath

_LLM: Final = "resource_llm"
_LIMITS: Final = ("output_limit_tokens", "context_window_tokens")


def asks_model(check: TaskCheck) -> bool:
    """Tell whether a run of a task may ask its own model anything."""
    flow, task = check.access_flow(), check.task
    return (
        any(node.kind is NodeKind.PROMPT for node in flow.nodes.values())
        or any(not rule.has_rule for rule in task.categories.values())
        or any(each.evaluation_type is EvaluationType.JUDGE for each in task.goal.target_conditions)
    )


def find_refusals(
    check: TaskCheck,
    attributes: ModelAttributes,
    configured: Mapping[str, JsonValue],
    *,
    has_tools: bool,
    today: date,
) -> Iterator[Found]:
    """Yield reasons why the model of a task cannot answer its prompts.

    Args:
        attributes: Attributes of the model.
        configured: Controls that the configuration sets for all models.
        has_tools: Whether the model is offered tools.
    """
    address = str(attributes.address)
    retirement = find_retirement(attributes)
    if retirement is not None:
        is_over = retirement.is_over(today)
        rule = TaskRule.MODEL_RETIRED if is_over else TaskRule.MODEL_RETIRES
        yield _find((_LLM, "model"), rule, retirement.describe(today))
    task_controls = check.task.resource_llm.controls
    # The controls of some models are unknown before a request.
    values = {**configured, **task_controls} if attributes.controls else {}
    for name, value in values.items():
        path: KeyPath = (_LLM, name if name in task_controls else "model")
        try:
            check_controls({name: value}, attributes.controls)
        except ControlError as error:
            message = f"{address} would refuse this: {error}"
            yield _find(path, TaskRule.MODEL, message)
            continue
        if name == "max_tokens":
            yield from _check_length(path, value, attributes)
    if has_tools and attributes.access_capability("supports_invocations") is Capability.NO:
        message = f"{address} cannot invoke tools: use another model, or offer it none."
        yield _find((_LLM, "model"), TaskRule.MODEL, message)


def _check_length(path: KeyPath, value: JsonValue, attributes: ModelAttributes) -> Iterator[Found]:
    """Yield a finding if the maximum response is longer than the model permits."""
    for name in _LIMITS:
        maximum = attributes.access_value(name)
        if isinstance(maximum, int) and isinstance(value, (int, float)) and value > maximum:
            message = f"{attributes.address} answers with at most {maximum:,} tokens ({name}), not "
            yield _find(path, TaskRule.MODEL, f"{message}{value:,}: lower 'max_tokens'.")
            return


def _find(path: KeyPath, rule: TaskRule, message: str) -> Found:
    return path, FlowFault(line=0, column=0, message=message, rule=rule)
