"""Of requests that differ in their words alone, one is translated, and the others are filled in.

A program mostly asks the same model in the same way, and each time something else: a prompt,
perhaps after instructions. What a vendor is sent then differs in these texts and in nothing
else. So it is translated once with marks in their place, and from then on the texts are put
where the marks were found.

This holds where the processors say that words decide nothing
(:attr:`.FunctionProcessor.is_verbatim`) and the vendor composes the body as its dialect does.
Whatever is unusual is translated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, cast

import attrs
import msgspec

from vibe_llms.dialects.processors import FunctionProcessor, Processors
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.contents import TextualContent
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.requests import Request, replace_canisters
from vibe_llms.messages.trusting import trusted

KEPT: Final = 64
"""For so many ways of asking moulds are kept; beyond, all are forgotten."""

_make_translation: Final = trusted(Translation)
_SHAPES: Final = ((UserCanister,), (SupervisorCanister, UserCanister))
Place: TypeAlias = tuple[str | int, ...]


@frozen
class Mould:
    """A request in a vendor's words, without those of who asks.

    Attributes:
        body: The request, marks where the texts go.
        places: Of the texts, each by the names and indexes that lead to it.
        losses: Of writing it.
    """

    body: JsonObject
    places: tuple[Place, ...]
    losses: tuple[Loss, ...]

    def fill(self, texts: Sequence[str]) -> Translation[JsonObject]:
        """Returns the request with these texts; what holds none is shared with the others."""
        body: Any = self.body
        for place, text in zip(self.places, texts, strict=True):
            body = _put(body, place, text)
        return _make_translation(value=body, losses=self.losses)


class Moulds:
    """Translates requests to one model, those of a known kind by filling in their words.

    Args:
        translate: Does it for any request; takes it, and whether the answer shall be streamed.
    """

    def __init__(self, translate: Callable[[Request, bool], Translation[JsonObject]]) -> None:
        self._translate = translate
        self._seen: set[object] = set()
        self._kept: dict[object, Mould | None] = {}  # None: of this kind there can be none

    def nativize(self, request: Request, streaming: bool) -> Translation[JsonObject]:
        """Translates a request. Raises RequestError."""
        texts = read_texts(request)
        if texts is None:
            return self._translate(request, streaming)
        # Written down, `True` is not `1`.
        controls = msgspec.json.encode(request.controls)
        kind = (streaming, len(texts), request.model, controls)
        mould = self._kept.get(kind)
        if mould is not None:
            return mould.fill(texts)
        translation = self._translate(request, streaming)
        if kind not in self._seen:
            if len(self._seen) >= KEPT:
                self._seen.clear()
                self._kept.clear()
            self._seen.add(kind)  # a mould is made when there is a second one
        elif kind not in self._kept:
            self._kept[kind] = self._make(request, texts, streaming, translation)
        return translation

    def _make(
        self,
        request: Request,
        texts: Sequence[str],
        streaming: bool,
        translation: Translation[JsonObject],
    ) -> Mould | None:
        """Makes the mould of a request; ``None`` where what it came to is not to be had by one."""
        marks = [f"<{produce_identity()}>" for _ in texts]  # as no text of anybody's holds
        canisters = [
            attrs.evolve(canister, content=(TextualContent(mark),))
            for canister, mark in zip(request.canisters, marks, strict=True)
        ]
        marked = self._translate(replace_canisters(request, canisters), streaming)
        found = [list(_find(marked.value, mark)) for mark in marks]
        # It stands nowhere, twice, or within other words: nothing that could be filled in.
        if any(len(places) != 1 for places in found):
            return None
        mould = Mould(marked.value, tuple(places[0] for places in found), marked.losses)
        filled = mould.fill(texts)
        # Tried on the request at hand: if its words had decided anything, that would show here.
        is_same = msgspec.json.encode(filled.value) == msgspec.json.encode(translation.value)
        return mould if is_same and filled.losses == translation.losses else None


def are_verbatim(processors: Processors) -> bool:
    """Tells whether no processor lets words decide what it writes besides them."""
    parts = (processors.controls, processors.messages, processors.invocations)
    return all(isinstance(each, FunctionProcessor) and each.is_verbatim for each in parts)


def read_texts(request: Request) -> list[str] | None:
    """Returns the texts of a request that is a prompt, perhaps after instructions, and no more."""
    canisters = request.canisters
    if (
        len(canisters) > 2
        or request.invocables
        or request.invocation_choice != "auto"
        or request.continuation
        or request.schema is not None
        or request.native is not None
        or tuple(map(type, canisters)) not in _SHAPES
    ):
        return None
    texts = []
    for canister in cast("tuple[UserCanister, ...]", canisters):
        if canister.native is not None or len(canister.content) != 1:
            return None
        content = canister.content[0]
        if (
            content.__class__ is not TextualContent
            or content.native is not None
            or content.citations
            or content.mime_type != "text/plain"
            or content.text.isspace()  # some vendors are not sent what is blank
            or not content.text
        ):
            return None
        texts.append(content.text)
    return texts


def _put(node: Any, place: Place, text: str) -> Any:
    """Returns the data with a text in a place; what is not on the way there is shared."""
    copied = whole = node.copy()
    for name in place[:-1]:
        within = copied[name].copy()
        copied[name] = within
        copied = within
    copied[place[-1]] = text
    return whole


def _find(node: Any, mark: str) -> Iterator[Place]:
    """Yields where a mark stands by itself; where it is part of a text, two places, for no use."""
    if isinstance(node, str) and mark in node:
        yield ()
        if node != mark:
            yield ()
    elif isinstance(node, dict):
        for name, each in node.items():
            yield from _find(name, mark) if mark in name else ()
            yield from ((name, *place) for place in _find(each, mark))
    elif isinstance(node, list):
        for index, each in enumerate(node):
            yield from ((index, *place) for place in _find(each, mark))
