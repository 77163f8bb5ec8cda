"""Limits and validation settings for running tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.tables.annotations import Count
from vibe_llms.tables.kinds import Kind, is_number
from vibe_llms.tables.reading import require

_CENTS: Final = Kind("a number above 0", lambda value: is_number(value) and value > 0)


class _Default(int):
    """Default value of a limit, distinct from an equal value that the user chose.

    On resume, an explicit ``max_iterations=1000`` replaces the limit that the run was started with;
    the default does not.
    """


@frozen(kw_only=True)
class AdapterConfig:
    """Settings for running tasks.

    Attributes:
        max_iterations: Maximum number of nodes that a run visits.
        timeout_ms: Maximum time of a run, in milliseconds.
        debug_mode: Log each visit under ``vibe_llms.flows``; to standard error if logging is not
            configured.
        strict_validation: Treat harmless findings in a task as errors.
        require_all_conditions: The goal is met only if all conditions are met; otherwise one
            condition suffices.
        max_requests: Maximum number of model responses, including subflows and questions about the
            goal; a run that could need more does not start. ``None`` for no limit, as below.
        max_tokens: Maximum number of input and output tokens.
        max_cost_cents: Maximum cost in US cents.
        ensure_budgets: Do not start a run that could exceed the budgets. By default, such a run
            starts, and stops when it exceeds a budget.
        model: Model to use instead of the task's, as ``provider:model``.
    """

    max_iterations: Count = _Default(1000)
    timeout_ms: Count = _Default(300_000)
    debug_mode: bool = False
    strict_validation: bool = True
    require_all_conditions: bool = True
    max_requests: Count | None = None
    max_tokens: Count | None = None
    max_cost_cents: Annotated[float, _CENTS] | None = None
    ensure_budgets: bool = True
    model: str | None = None

    def __attrs_post_init__(self) -> None:
        require(self, "config")

    def export(self) -> Mapping[str, JsonValue]:
        """Return the settings that the user chose; flags only if they differ from the default."""
        return {
            field.name: value
            for field in attrs.fields(type(self))
            # By identity: a chosen number may equal the default.
            if (value := getattr(self, field.name)) is not field.default
        }
