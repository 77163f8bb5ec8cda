"""Options of runs, their progress, and the selection of cases and subjects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypeAlias

from vibe_llms.evals.suites import EvalCase, EvalSubject, Suite
from vibe_llms.exceptions import ConfigurationError, UnknownNameError
from vibe_llms.foundation.attrs_classes import define, frozen
from vibe_llms.foundation.suggestions import order_by_nearness


@frozen(kw_only=True)
class EvalOptions:
    """Options of a run.

    Attributes:
        cases: Names of cases to run; by default all.
        tags: Tags; cases with one of them run.
        subjects: Names of subjects to run; by default all.
        batch: Whether requests to models whose vendors have batches are sent as batches.
        fresh: Whether to ignore cached results.
        max_cost: Maximum cost in dollars; by default that of the suite.
        cache: Folder of the cache; by default in the user's cache directory.
    """

    cases: Sequence[str] = ()
    tags: Sequence[str] = ()
    subjects: Sequence[str] = ()
    batch: bool = False
    fresh: bool = False
    max_cost: Decimal | None = None
    cache: Path | None = None


@define(kw_only=True)
class EvalProgress:
    """Progress of a run.

    Attributes:
        total: Number of trials.
        done: Number of finished trials.
        passed: How many of them have passed.
        cost: Known cost so far, in dollars.
    """

    total: int
    done: int = 0
    passed: int = 0
    cost: Decimal = Decimal(0)


Progress: TypeAlias = Callable[[EvalProgress], object]
"""Called after each trial."""


def select_cases(suite: Suite, options: EvalOptions) -> tuple[EvalCase, ...]:
    """Return the cases of a run.

    Raises:
        UnknownNameError: A case or a tag does not exist.
        ConfigurationError: No case has one of the names and one of the tags.
    """
    names = [each.name for each in suite.cases]
    tags = [tag for each in suite.cases for tag in each.tags]
    _require_known("case", options.cases, names)
    _require_known("tag", options.tags, tags)
    cases = tuple(
        each
        for each in suite.cases
        if (not options.cases or each.name in options.cases)
        and (not options.tags or not set(options.tags).isdisjoint(each.tags))
    )
    if not cases:
        message = "No case has one of these names and one of these tags. Select by one of them."
        raise ConfigurationError.at(f"suite {suite.name}", message)
    return cases


def select_subjects(suite: Suite, options: EvalOptions) -> Sequence[EvalSubject]:
    """Return the subjects of a run. Raises UnknownNameError."""
    _require_known("subject", options.subjects, [each.name for each in suite.subjects])
    return [
        each for each in suite.subjects if not options.subjects or each.name in options.subjects
    ]


def _require_known(kind: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            nearest = order_by_nearness(name, dict.fromkeys(known))
            raise UnknownNameError(kind=kind, name=name, known=nearest)
