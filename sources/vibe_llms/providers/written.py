"""What was written stays written: of a conversation that goes on, only what is new is translated.

A vendor gets the whole conversation at each turn. Most of it was sent before, and is written
again as it was then: faster than translating it, and the same bytes, by which vendors recognize
what they have in their caches.

This holds where the messages of a conversation are those of its two parts, one after the other:
cut between turns, with each invocation beside its result. A processor says so of itself
(:attr:`.FunctionProcessor.is_additive`). Whatever is unusual is translated as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from vibe_llms.dialects.processors import FunctionProcessor, MessagesProcessor, Processors
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    InvocationCanister,
    Owner,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.shelves import Shelf

KEPT: Final = 8
"""Of how many conversations, or forks of one, a model keeps what it wrote."""

SHELF: Final = Shelf(64_000_000)
"""What all models together keep, in characters and bytes of what was said."""

SHORTEST: Final = 16
"""Below so many canisters writing all of them again costs less than to remember."""

_PLACE: Final = re.compile(r"canisters\[(\d+)\]")
_Words = (UserCanister, DocumentCanister)
_OPENING: Final = UserCanister("?")


@frozen(kw_only=True)
class _Written:
    """The beginning of a conversation, as it was written.

    Attributes:
        canisters: The beginning.
        rest: What else the request had that was written with it.
        native: The fields of the vendor's request, without the messages.
        messages: As they go to the vendor.
        losses: Of writing it.
        ids: Of all invocations in it.
        weight: Of what was said in it.
        in_run: It ends within the work of a model, before the user's next words: from these on,
            some vendors want less of it.
    """

    canisters: tuple[AnyCanister, ...]
    rest: tuple[object, ...]
    native: JsonObject
    messages: list[JsonValue]
    losses: tuple[Loss, ...]
    ids: set[str]
    weight: int
    in_run: bool

    def precedes(self, request: Request) -> bool:
        """Tells whether a request goes on from here, in the usual way."""
        count, canisters = len(self.canisters), request.canisters
        if len(canisters) <= count or canisters[:count] != self.canisters:
            return False
        if not _is_cut(canisters, count) or self.rest != _survey_rest(request):
            return False
        new = canisters[count:]
        if self.in_run == isinstance(new[0], _Words):
            return False
        if self.in_run and any(isinstance(canister, _Words) for canister in new):
            return False
        return self.ids.isdisjoint(_list_ids(new))  # else a late result, or an id that is taken


class WrittenMessages:
    """Writes messages as another processor does, and what it has written before as it was.

    Args:
        writer: Translates what is new; it is additive.
    """

    def __init__(self, writer: FunctionProcessor[tuple[AnyCanister, ...]]) -> None:
        self._writer = writer
        self._kept: tuple[_Written, ...] = ()  # replaced as a whole: threads may share a model

    def nativize(self, request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        """Returns the fields that hold the conversation; their parts may be those of before.

        Raises:
            RequestError: The vendor cannot be told that.
        """
        if len(request.canisters) < SHORTEST or request.continuation:
            return self._writer.nativize(request, model)
        before = next((each for each in self._kept if each.precedes(request)), None)
        translation = None if before is None else self._go_on(before, request, model)
        if translation is None:
            before = None
            translation = self._writer.nativize(request, model)
        self._keep(before, request, translation, model)
        return translation

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Returns the canisters of a request. Raises RequestError."""
        return self._writer.normalize(native, model)

    def _go_on(
        self, before: _Written, request: Request, model: ModelDescriptor
    ) -> Translation[JsonObject] | None:
        written = self._write_end(request, len(before.canisters), model)
        if written is None:
            return None
        (field, messages), losses = written
        native = {**before.native, field: [*before.messages, *messages]}
        return Translation(native, (*before.losses, *losses))

    def _write_end(
        self, request: Request, start: int, model: ModelDescriptor
    ) -> tuple[tuple[str, list[JsonValue]], list[Loss]] | None:
        """Writes the end of a conversation by itself.

        Returns:
            The messages with the name of their field, and the losses; ``None`` where they cannot
            be told from the rest of what is written.
        """
        end = request.canisters[start:]
        is_opened = not isinstance(end[0], _Words)  # some vendors want the user to speak first
        canisters = (_OPENING, *end) if is_opened else end
        try:
            written = self._writer.nativize(attrs.evolve(request, canisters=canisters), model)
        except RequestError:
            return None  # writing the whole will say it of the right place
        if len(written.value) != 1:
            return None
        ((field, messages),) = written.value.items()
        if not isinstance(messages, list):
            return None
        losses = _shift(written.losses, start - is_opened)
        place = f"canisters[{start}]"
        if not is_opened and any(loss.path.startswith(place) for loss in losses):
            return None  # it may be that nothing is left of the user's words
        return (field, messages[is_opened:]), losses

    def _keep(
        self,
        before: _Written | None,
        request: Request,
        translation: Translation[JsonObject],
        model: ModelDescriptor,
    ) -> None:
        """Keeps all but the last turn, if that is written by itself as it is here."""
        start = 0 if before is None else len(before.canisters)
        canisters = request.canisters
        cut = _find_cut(canisters, start)
        if cut - start < 1 or not _is_settled(canisters[start:cut]):
            return
        last = self._write_end(request, cut, model)
        if last is None:
            return
        (field, end), losses = last
        messages = translation.value.get(field)
        if not end or not isinstance(messages, list) or messages[-len(end) :] != end:
            return
        theirs = set(losses)
        in_run = not isinstance(canisters[cut], _Words)
        stays = before is not None and before.in_run != in_run
        # Who goes on from what stays must not add to it: of one beginning there may be many ends.
        ids = set() if before is None else set(before.ids) if stays else before.ids
        ids.update(_list_ids(canisters[start:cut]))
        written = _Written(
            canisters=canisters[:cut],
            rest=_survey_rest(request),
            native={**translation.value, field: []},
            messages=messages[: -len(end)],
            losses=tuple(loss for loss in translation.losses if loss not in theirs),
            ids=ids,
            weight=(0 if before is None else before.weight) + _weigh(canisters[start:cut]),
            in_run=in_run,
        )
        # Of a conversation the beginning of each kind is kept: words that come make do with one.
        others = [each for each in self._kept if each is not before]
        if before is not None and stays:
            others.insert(0, before)
        self._kept = (written, *others[: KEPT - 1])
        SHELF.put(self, sum(each.weight for each in self._kept))

    def forget(self) -> None:
        """Keeps nothing of what was written so far."""
        self._kept = ()


def keep_written(processors: Processors) -> Processors:
    """Returns processors for one model, of which the one for messages keeps what it wrote."""
    writer: MessagesProcessor = processors.messages
    if isinstance(writer, FunctionProcessor) and writer.is_additive:
        return attrs.evolve(processors, messages=WrittenMessages(writer))
    return processors


def _survey_rest(request: Request) -> tuple[object, ...]:
    return (
        request.model,
        request.controls,
        request.invocables,
        request.invocation_choice,
        request.schema,
        request.native,
    )


def _find_cut(canisters: Sequence[AnyCanister], start: int) -> int:
    """Returns where the last turn begins; ``start`` where nothing before it can be kept."""
    cuts = (i for i in range(len(canisters) - 1, start, -1) if _is_cut(canisters, i))
    return next(cuts, start)


def _is_cut(canisters: Sequence[AnyCanister], index: int) -> bool:
    """Tells whether a turn begins here: with the user's words, or after all results."""
    earlier, now = canisters[index - 1], canisters[index]
    if isinstance(now, _Words):
        return not isinstance(earlier, (*_Words, SupervisorCanister))
    is_owed = isinstance(earlier, ResultCanister) and earlier.owner is Owner.OURS
    return is_owed and not isinstance(now, ResultCanister)


def _is_settled(canisters: Sequence[AnyCanister]) -> bool:
    """Tells whether nobody later says whose the uploaded files are: who was given them answered."""
    for canister in reversed(canisters):
        if canister.origin is not None:
            return True
        if any(getattr(content, "file_id", None) is not None for content in canister.content):
            return False
    return True


def _weigh(canisters: Iterable[AnyCanister]) -> int:
    """Returns about how much room canisters take."""
    total = 0
    for canister in canisters:
        total += len(getattr(canister, "arguments", ""))
        for content in canister.content:
            for each in (content, content.native):
                for name in ("text", "data", "signature"):
                    said = getattr(each, name, None)
                    total += len(said) if isinstance(said, (str, bytes)) else 0
    return total


def _list_ids(canisters: Iterable[AnyCanister]) -> list[str]:
    return [
        canister.invocation_id
        for canister in canisters
        if isinstance(canister, (InvocationCanister, ResultCanister))
    ]


def _shift(losses: Sequence[Loss], start: int) -> list[Loss]:
    """Returns losses of a part, with their places in the whole."""

    def move(found: re.Match[str]) -> str:
        return f"canisters[{int(found[1]) + start}]"

    return [attrs.evolve(loss, path=_PLACE.sub(move, loss.path)) for loss in losses]
