"""Lists of runs: their titles, and searches in titles and tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from vibe_llms.conversations.index.interfaces import Index
from vibe_llms.conversations.tags import survey_labels
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.runs.filtering import RunFilter
from vibe_llms.runs.summaries import RunSummary

_KEPT_TITLES: Final = 20_000
"""Number of titles in the cache; each is a short line."""


@define(eq=False)
class RunTitles:
    """Titles and tags of runs, from the index of their conversations. Does file work.

    Attributes:
        conversations: The index.
    """

    conversations: Index
    _known: dict[str, str] = attrs.field(factory=dict)

    def match(self, wanted: RunFilter) -> Callable[[str], bool]:
        """Return a function that tells whether title and tags of a run match."""
        if not wanted.needs_texts:
            return lambda _: True
        matches = {
            row.id
            for row in self.conversations.survey(limit=None)
            if wanted.matches_texts(
                (row.name or row.first_words, row.id, row.model or ""), survey_labels(row.tags)
            )
        }
        return matches.__contains__

    def add(self, summaries: Sequence[RunSummary]) -> list[RunSummary]:
        """Return summaries with the first words of unnamed runs, which never change."""
        known = self._known
        unknown = [each.id for each in summaries if not each.name and each.id not in known]
        if unknown:
            if len(known) > _KEPT_TITLES:
                known.clear()
            rows = self.conversations.describe(unknown)
            known.update((row.id, row.first_words) for row in rows if row.first_words)
        return [attrs.evolve(each, first_words=known.get(each.id, "")) for each in summaries]
