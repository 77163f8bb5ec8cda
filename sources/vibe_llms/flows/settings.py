"""What bounds the run of a flow, and how strictly it is looked at before."""

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


class _Usual(int):
    """A bound that nobody has chosen: one that happens to be the same was, and takes its place.

    Who resumes a run says with ``max_iterations=1000`` that it may go so far, though it was begun
    with less; who says nothing leaves it at that.
    """


@frozen(kw_only=True)
class AdapterConfig:
    """How tasks are run.

    Attributes:
        max_iterations: How many nodes a run may visit.
        timeout_ms: How long it may take in all, in milliseconds.
        debug_mode: Each visit is logged, under ``vibe_llms.flows``; on standard error where the
            program has not said where to.
        strict_validation: What is odd in a task but harms nobody is an error, too.
        require_all_conditions: The goal is met when all of its conditions are; else when one is.
        max_requests: How many answers of models it may take; a run that could take more does not
            start. ``None`` for as many as it takes, as with those that follow. Subflows and what is
            asked about the goal count, too.
        max_tokens: How many tokens it may use, input and output.
        max_cost_cents: What it may cost, in US cents.
        ensure_budgets: A run that could exceed these does not start; else it stops where it does.
        model: Is asked in place of the one that the task names, as ``provider:model``.
    """

    max_iterations: Count = _Usual(1000)
    timeout_ms: Count = _Usual(300_000)
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
        """Returns what was chosen, as far as that can be told: flags are, where they differ."""
        return {
            field.name: value
            for field in attrs.fields(type(self))
            # By identity: a number that was chosen may equal the usual one.
            if (value := getattr(self, field.name)) is not field.default
        }
