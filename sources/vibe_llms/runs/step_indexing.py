"""Steps of the runs in a store, with a bounded cache."""

from __future__ import annotations

from typing import Final

from vibe_llms.messages.identities import access_now
from vibe_llms.runs.folding import LogFolds
from vibe_llms.runs.indexing import RunIndex
from vibe_llms.runs.step_folding import StepFold
from vibe_llms.runs.steps import StepPage, end_broken_off

_ACTIVE: Final = frozenset({"working", "queued"})
"""States of a run whose working steps continue."""

_KEPT_STEPS: Final = 50_000
"""Maximum number of steps in the cache; each has a few short texts."""


class StepIndex:
    """Steps of the runs that were watched last. Thread-safe; does file work."""

    def __init__(self) -> None:
        self._folds = LogFolds(StepFold, _KEPT_STEPS, lambda fold: len(fold.steps) + 1)

    def read(self, runs: RunIndex, identity: str, after: int, limit: int | None) -> StepPage:
        """Return the steps of a run that changed after an event.

        Raises:
            UnknownConversationError: The conversation does not exist.
            StoreError: It has no run, or the log cannot be read.
        """
        is_over = runs.read_summary(identity).state not in _ACTIVE

        def extract(fold: StepFold) -> StepPage:
            steps, cursor, has_more = fold.survey(after, limit)
            if is_over and fold.last is not None:
                steps = [
                    end_broken_off(each, fold.last) if each.state == "working" else each
                    for each in steps
                ]
            return StepPage(data=tuple(steps), sequence=cursor, has_more=has_more, now=access_now())

        return self._folds.read(runs.store, identity, extract)
