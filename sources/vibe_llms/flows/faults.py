"""Mistakes in parts of a task, before their place in a file is known."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from vibe_llms.foundation.attrs_classes import frozen


class Severity(enum.StrEnum):
    """Effect of a mistake on a run.

    ``ERROR``: the task does not run. ``HARMLESS``: it runs, unless it is checked strictly.
    ``WARNING``: it always runs.
    """

    ERROR = "error"
    HARMLESS = "harmless"
    WARNING = "warning"


class TaskRule(enum.StrEnum):
    """Rules that a part of a task can violate; the guide to checks explains each by its value."""

    SENSE = "sense"
    ARROW = "arrow"
    BLANK = "blank"
    UNREACHABLE = "unreachable"
    DEAD_END = "dead-end"
    AMBIGUOUS = "ambiguous"
    TWICE = "twice"
    DEFAULT = "default"
    ONE_WAY = "one-way"
    NOTHING_SAID = "nothing-said"
    LABEL = "label"
    CATEGORY = "category"
    LOOP_WAYS = "loop-ways"
    LOOP_BOUND = "loop-bound"
    LOOP_NUMBER = "loop-number"
    LOOP_EMPTY = "loop-empty"
    LOOP_ENTRY = "loop-entry"
    CYCLE = "cycle"
    SPLIT_AGAIN = "split-again"
    SPLIT_CROSSED = "split-crossed"
    AT_ONCE = "at-once"
    NEVER_TAKEN = "never-taken"
    PROMPT_MISSING = "prompt-missing"
    PROMPT_UNUSED = "prompt-unused"
    LOOKALIKE = "lookalike"
    TEMPLATE = "template"
    VARIABLE = "variable"
    VARIABLE_LATER = "variable-later"
    REGISTRY = "registry"
    REGISTRY_EMPTY = "registry-empty"
    RESPONSE = "response"
    RESPONSE_MAYBE = "response-maybe"
    LOOP_OUTSIDE = "loop-outside"
    SUBFLOW = "subflow"
    TOOL = "tool"
    TOOL_LATER = "tool-later"
    UNGUARDED = "unguarded"
    PREDICATE = "predicate"
    MODEL = "model"
    MODEL_RETIRED = "model-retired"
    MODEL_RETIRES = "model-retires"
    BUDGET = "budget"


SEVERITIES: Final[Mapping[TaskRule, Severity]] = {
    **dict.fromkeys(TaskRule, Severity.ERROR),
    **dict.fromkeys(
        (
            TaskRule.ARROW,
            TaskRule.BLANK,
            TaskRule.LOOP_NUMBER,
            TaskRule.MODEL_RETIRED,
            TaskRule.UNREACHABLE,
            TaskRule.TWICE,
            TaskRule.ONE_WAY,
            TaskRule.CATEGORY,
            TaskRule.LOOP_EMPTY,
            TaskRule.SPLIT_AGAIN,
            TaskRule.SPLIT_CROSSED,
            TaskRule.PROMPT_UNUSED,
            TaskRule.LOOKALIKE,
            TaskRule.REGISTRY_EMPTY,
        ),
        Severity.HARMLESS,
    ),
    **dict.fromkeys(
        (
            TaskRule.DEFAULT,
            TaskRule.LOOP_BOUND,
            TaskRule.CYCLE,
            TaskRule.AT_ONCE,
            TaskRule.NEVER_TAKEN,
            TaskRule.VARIABLE_LATER,
            TaskRule.TOOL_LATER,
            TaskRule.RESPONSE_MAYBE,
            TaskRule.UNGUARDED,
            TaskRule.MODEL_RETIRES,
        ),
        Severity.WARNING,
    ),
}
"""Severity of each rule's violation; decided only here."""


@frozen(kw_only=True)
class FlowFault:
    """One mistake in a template or a diagram.

    Attributes:
        line: Line in that text, from 1.
        column: Column in that line, from 1.
        message: Description of the mistake and its fix.
        rule: Violated rule.
    """

    line: int
    column: int
    message: str
    rule: TaskRule = TaskRule.SENSE

    @property
    def weight(self) -> Severity:
        """Effect on a run."""
        return SEVERITIES[self.rule]
