"""Guard against secrets and personal data: keys, numbers of cards and accounts, addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.guards.shipped.patterns import SECRET_KINDS, find_open_key
from vibe_llms.guards.shipped.settings import Action, read_guard_settings
from vibe_llms.plugins.specification.guards import (
    GuardContext,
    GuardRefusal,
    GuardVerdict,
    Inspection,
    Redaction,
)
from vibe_llms.tables.kinds import Kind, is_list_of
from vibe_llms.tables.reading import require

_WINDOW: Final = 64
"""More than the longest number with its spaces; longer tokens and private keys are held back until
they end."""

_TOKEN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.@%~:-"
_TOKEN_CHARACTERS: Final = 16

_NAMES = Kind(
    f"a list of {', '.join(SECRET_KINDS)}", is_list_of(lambda value: value in SECRET_KINDS), tuple
)


@frozen(kw_only=True)
class SecretSettings:
    """Settings of a guard of the kind ``secrets``.

    Attributes:
        find: What to find: ``keys`` (of vendors and services, private keys and web tokens),
            ``cards``, ``ibans``, ``ssns`` (of the United States), ``emails``, ``phones``
            (international).
        action: ``mark`` to replace what is found, or ``refuse``.
    """

    find: Annotated[tuple[str, ...], _NAMES] = ("keys", "cards", "ibans", "ssns")
    action: Action = "mark"

    def __attrs_post_init__(self) -> None:
        require(self, "guards")

    def find_mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield contradictions: a field, and a sentence."""
        if not self.find:
            yield "find", "The list is empty. Remove it for the default."


def make_guard(context: GuardContext) -> SecretGuard:
    """Make the guard of a table. Raises ConfigurationError."""
    return SecretGuard(read_guard_settings(SecretSettings, context))


@frozen(eq=False)
class SecretGuard:
    """Finds secrets by patterns; replaces each by a mark, or refuses the texts."""

    settings: SecretSettings = attrs.field(factory=SecretSettings)
    window: int = _WINDOW

    async def examine(self, inspection: Inspection) -> GuardVerdict:
        """Return the secrets in the texts."""
        found: list[Redaction] = []
        for index, text in enumerate(inspection.texts):
            begin = inspection.begin if index == 0 else 0
            for name in self.settings.find:
                kind = SECRET_KINDS[name]
                mark = f"[{kind.words.partition(' ')[2]} removed]"
                found += [
                    Redaction(start, end, mark, kind.words, index)
                    for start, end in kind.find(text, begin)
                ]
        if self.settings.action == "refuse" and (settled := _select_settled(inspection, found)):
            kinds = dict.fromkeys(each.reason for each in settled)
            return GuardRefusal(f"it has {' and '.join(kinds)}")
        return [*found, *self._hold(inspection)]

    def _hold(self, inspection: Inspection) -> Iterator[Redaction]:
        """Yield spans at the end of a stream that may become secrets: they are held back."""
        if inspection.is_complete:
            return
        text = inspection.texts[-1]
        token = max(len(text.rstrip(_TOKEN)), inspection.begin)
        if len(text) - token >= _TOKEN_CHARACTERS:
            yield Redaction(token, len(text), "", "a token")
        if "keys" in self.settings.find and (key := find_open_key(text, inspection.begin)) >= 0:
            yield Redaction(key, len(text), "", "a key")


def _select_settled(inspection: Inspection, found: list[Redaction]) -> list[Redaction]:
    """Return the findings that more text cannot change: those before the end of a stream."""
    if inspection.is_complete:
        return found
    return [each for each in found if each.end < len(inspection.texts[0])]
