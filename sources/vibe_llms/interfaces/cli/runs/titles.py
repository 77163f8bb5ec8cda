"""Titles of unnamed runs: their first words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from vibe_llms.foundation.attrs_classes import define

if TYPE_CHECKING:
    from vibe_llms.agents.local import LocalRuns
    from vibe_llms.agents.remote import RemoteRuns
    from vibe_llms.runs.summaries import RunSummary

_DAEMON_LIMIT: Final = 500
"""Maximum number of recent conversations that a daemon lists at once."""


@define
class Titles:
    """Cache of first words by run id; one query for all runs."""

    _known: dict[str, str] = attrs.field(factory=dict)

    async def name(
        self, runs: LocalRuns | RemoteRuns, rows: Sequence[RunSummary]
    ) -> tuple[RunSummary, ...]:
        """Return the runs; the title of an unnamed run is its first words. Raises ConverseError."""
        unknown = [each.id for each in rows if not each.name and each.id not in self._known]
        if unknown:
            self._known |= dict.fromkeys(unknown, "") | await _read_first_words(runs)
        return tuple(
            each if each.name else attrs.evolve(each, name=self._known[each.id]) for each in rows
        )


async def _read_first_words(runs: LocalRuns | RemoteRuns) -> dict[str, str]:
    from vibe_llms.agents.local import LocalRuns

    if isinstance(runs, LocalRuns):
        return await asyncio.to_thread(_read_local_first_words)
    path = f"/conversations?limit={_DAEMON_LIMIT}"
    document = await runs.connection.ask(dict[str, object], "GET", path, is_repeatable=True)
    rows = document.get("data")
    return {
        str(each.get("id")): str(each.get("first_words") or "")
        for each in (rows if isinstance(rows, list) else ())
        if isinstance(each, dict)
    }


def _read_local_first_words() -> dict[str, str]:
    from vibe_llms.interfaces.cli.access import open_index

    return {row.id: row.first_words for row in open_index().survey(limit=None)}
