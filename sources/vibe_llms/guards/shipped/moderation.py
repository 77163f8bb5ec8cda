"""Guard that asks a moderator: refuses texts that are harmful in its opinion."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final

import attrs

from vibe_llms.exceptions import ConverseError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.guards.shipped.settings import read_guard_settings
from vibe_llms.messages.moderations import Moderation, ModerationRequest, ModerationVerdict
from vibe_llms.plugins.specification.guards import (
    GuardContext,
    GuardRefusal,
    GuardVerdict,
    Inspection,
)
from vibe_llms.providers.call_caching import CallCache, cache_calls
from vibe_llms.providers.interfaces import CallModel
from vibe_llms.tables.annotations import Count, String, Strings

_BYTES_OF_CHARACTER: Final = 4
_MOST_CHARACTERS: Final = 20_000
"""Longest text of one verdict; most moderators look at fewer characters."""


@frozen(kw_only=True)
class ModeratorSettings:
    """Settings of a guard of the kind ``moderator``.

    Attributes:
        model: Address of the moderator; by default the configured one.
        categories: Categories of harm to refuse, in the vendor's words; by default all. With an
            unknown one, nothing passes.
        window: Characters of a stream to examine at a time; by default the whole answer.
    """

    model: String = ""
    categories: Strings = ()
    window: Count | None = None


def make_guard(context: GuardContext) -> ModeratorGuard:
    """Make the guard of a table. Raises ConfigurationError."""
    return ModeratorGuard(read_guard_settings(ModeratorSettings, context), context.access)


@frozen(eq=False)
class ModeratorGuard:
    """Refuses harmful texts. Each text is sent once: verdicts are cached for an hour."""

    settings: ModeratorSettings
    access: Callable[[str, str], Awaitable[Any]]
    _cache: CallCache = attrs.field(factory=CallCache, init=False)

    @property
    def window(self) -> int | None:
        """Characters of a stream to hold back; ``None`` for the whole answer."""
        return self.settings.window

    async def examine(self, inspection: Inspection) -> GuardVerdict:
        """Refuse the texts if one of them is harmful.

        Raises:
            ConverseError: The moderator fails, or does not have a category of the settings.
        """
        model: CallModel[ModerationRequest, Moderation]
        model = cache_calls(await self.access("moderator", self.settings.model), self._cache)
        size = min(_MOST_CHARACTERS, max(1, model.max_bytes // _BYTES_OF_CHARACTER))
        pieces = list(dict.fromkeys(_split(inspection.texts, size)))
        wanted = frozenset(self.settings.categories)
        categories: dict[str, None] = {}
        for texts in _group(pieces, model.max_inputs, model.max_bytes // _BYTES_OF_CHARACTER):
            for verdict in await model.call(ModerationRequest(texts=texts)):
                _ensure_known(wanted, verdict)
                found = [each for each in verdict.categories if not wanted or each in wanted]
                categories.update(dict.fromkeys(found))
        if categories:
            return GuardRefusal(f"the moderator finds {', '.join(categories)}")
        return ()


def _ensure_known(wanted: frozenset[str], verdict: ModerationVerdict) -> None:
    """Reject categories that a moderator does not have: they would never be found."""
    unknown = sorted(wanted - verdict.scores.keys() - set(verdict.categories))
    if verdict.scores and unknown:
        known = ", ".join(verdict.scores)
        raise ConverseError(
            detail=f"Unknown categories {unknown}. Use {known}.", stage=Stage.EXECUTE
        )


def _split(texts: tuple[str, ...], size: int) -> Iterator[str]:
    for text in texts:
        for start in range(0, len(text), size):
            if (piece := text[start : start + size]).strip():
                yield piece


def _group(pieces: list[str], most_inputs: int, most_characters: int) -> Iterator[list[str]]:
    """Yield the pieces in groups that fit into one call each."""
    group: list[str] = []
    size = 0
    for piece in pieces:
        if group and (len(group) == most_inputs or size + len(piece) > most_characters):
            yield group
            group, size = [], 0
        group.append(piece)
        size += len(piece)
    if group:
        yield group
