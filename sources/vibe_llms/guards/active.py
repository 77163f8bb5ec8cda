"""A configured guard, and the one place that calls it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Final, TypeAlias, TypeVar

import attrs

from vibe_llms.exceptions import ConverseError, GuardError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.plugins.specification.guards import (
    Guard,
    GuardedPart,
    GuardRefusal,
    Inspection,
    Redaction,
)

_T = TypeVar("_T")

ChangeText: TypeAlias = Callable[[str, str], str]
"""Returns the text to put in the place of one; receives its path and the text."""

_CHARACTERS_OF_NAME: Final = 64


@frozen(kw_only=True, eq=False)
class ActiveGuard:
    """A guard that a table ``[guards.NAME]`` configures.

    Attributes:
        name: The name of its table.
        guard: The guard.
        parts: The parts of the traffic that it examines.
        models: Patterns of the addresses of the models that it concerns.
    """

    name: str
    guard: Guard
    parts: frozenset[GuardedPart]
    models: tuple[str, ...] = ("*",)

    def concerns(self, address: str) -> bool:
        """Return whether it examines the requests and answers of a model."""
        return any(fnmatchcase(address, pattern) for pattern in self.models)

    async def examine(self, inspection: Inspection) -> Sequence[Redaction]:
        """Return the spans to replace, in order and without overlaps.

        Raises:
            GuardError: The guard refuses the texts.
            ConverseError: The guard failed: what it cannot examine is not passed on.
        """
        try:
            verdict = await self.guard.examine(inspection)
            redactions = () if isinstance(verdict, GuardRefusal) else _arrange(inspection, verdict)
        except ConverseError as error:
            raise self._fail(inspection, str(error)) from error
        except Exception as error:
            # Neither the message nor the traceback, which may contain the texts.
            raise self._fail(inspection, f"{type(error).__name__} in its code.") from None
        if isinstance(verdict, GuardRefusal):
            refused = f"The guard {self.name!r} refused {_describe(inspection)}"
            detail = f"{refused}: {verdict.reason}."
            raise GuardError(guard=self.name, part=inspection.part, detail=detail)
        return redactions

    def _fail(self, inspection: Inspection, reason: str) -> ConverseError:
        return ConverseError(
            detail=f"The guard {self.name!r} cannot examine {_describe(inspection)}: {reason}",
            stage=Stage.EXECUTE,
        )

    def report(self, path: str, redaction: Redaction) -> Loss:
        """Return the loss of a replaced span."""
        return Loss(
            kind=LossKind.COERCED,
            path=path,
            reason=f"the guard {self.name!r} replaced {redaction.reason} by {redaction.mark}",
        )


def _describe(inspection: Inspection) -> str:
    if not inspection.tool:
        return f"the {inspection.part}"
    return f"the arguments of {inspection.tool[:_CHARACTERS_OF_NAME]}"


def _arrange(inspection: Inspection, redactions: Iterable[Redaction]) -> list[Redaction]:
    """Return redactions in order; join those that overlap. Raises ValueError for invalid ones."""
    arranged: list[Redaction] = []
    for each in sorted(redactions, key=lambda each: (each.text, each.start, each.end)):
        if not 0 <= each.start < each.end <= len(inspection.texts[each.text]) or each.text < 0:
            raise ValueError
        if each.text == 0 and each.start < inspection.begin:
            continue
        last = arranged[-1] if arranged else None
        if last is not None and last.text == each.text and each.start < last.end:
            arranged[-1] = attrs.evolve(last, end=max(last.end, each.end))
        else:
            arranged.append(each)
    return arranged


def redact(text: str, redactions: Iterable[Redaction]) -> str:
    """Replace spans of a text, which are in order and do not overlap."""
    parts: list[str] = []
    position = 0
    for each in redactions:
        parts += (text[position : each.start], each.mark)
        position = each.end
    return "".join((*parts, text[position:]))


async def redact_texts(
    active: ActiveGuard, rewrite: Callable[[ChangeText], _T], inspection: Inspection
) -> Translation[_T]:
    """Let a guard examine all texts of a value at once; return the value with its redactions.

    Args:
        rewrite: Returns the value with each of its texts replaced; the same value if the texts are
            the same. It is called once to collect the texts, and again if some are replaced.
        inspection: Everything but the texts.

    Raises:
        ConverseError: See :meth:`ActiveGuard.examine`.
    """
    paths: list[str] = []
    texts: list[str] = []

    def collect(path: str, text: str) -> str:
        if text and not text.isspace():
            paths.append(path)
            texts.append(text)
        return text

    value = rewrite(collect)
    if not texts:
        return Translation(value)
    redactions = await active.examine(attrs.evolve(inspection, texts=tuple(texts)))
    if not redactions:
        return Translation(value)
    spans: dict[int, list[Redaction]] = {}
    for each in redactions:
        spans.setdefault(each.text, []).append(each)
    number = 0

    def replace(path: str, text: str) -> str:
        nonlocal number
        if not text or text.isspace():
            return text
        found = spans.get(number)
        number += 1
        return text if found is None else redact(text, found)

    losses = dict.fromkeys(active.report(paths[each.text], each) for each in redactions)
    return Translation(rewrite(replace), tuple(losses))
