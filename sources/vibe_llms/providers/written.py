"""Incremental translation: reuse already translated messages and tools.

A vendor gets the whole conversation at each turn. Most of it was sent before, and is sent again
unchanged: that is faster than translating it, and gives the same bytes, which vendors' caches
compare.

This requires that the messages of a conversation are those of its two parts, one after the other,
if it is split between turns, with each invocation beside its result. A processor declares this
(:attr:`.FunctionProcessor.is_additive`). Unusual conversations are translated as a whole.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Sequence
from typing import Final

import attrs
import msgspec

from vibe_llms.dialects.processors import FunctionProcessor, Processors
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
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.shelves import Shelf

KEPT: Final = 8
"""Number of conversations, or forks of one, whose translations a model keeps."""

SHELF: Final = Shelf(64_000_000)
"""Limit for all models together, in characters and bytes of the conversations."""

SHORTEST: Final = 16
"""With fewer canisters, translating all of them again costs less than caching."""

MARGIN: Final = 5
"""Number of canisters before the last one that are not cached, in long conversations."""

_PLACE: Final = re.compile(r"canisters\[(\d+)\]")
_Words = (UserCanister, DocumentCanister)
_OPENING: Final = UserCanister("?")


@frozen(kw_only=True)
class _Written:
    """The beginning of a conversation, translated.

    Attributes:
        canisters: The beginning.
        rest: The other parts of the request that affected its translation.
        native: The fields of the vendor's request, without the messages.
        messages: The vendor's messages.
        losses: Losses of the translation.
        ids: Ids of all invocations in it.
        weight: Size of the conversation.
        in_run: Whether it ends within the work of a model, before the user's next message: after
            that, some vendors need less of it.
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
        """Return whether a request continues this beginning, in the usual way."""
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
        return self.ids.isdisjoint(_list_ids(new))  # otherwise a late result, or an id used twice


class WrittenMessages:
    """Writes messages like another processor, but reuses earlier translations.

    Args:
        writer: Translates the new messages; it is additive.
    """

    def __init__(self, writer: FunctionProcessor[tuple[AnyCanister, ...]]) -> None:
        self._writer = writer
        self._kept: tuple[_Written, ...] = ()  # replaced as a whole: threads may share a model

    def nativize(self, request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        """Return the fields with the conversation; they may share parts with earlier ones.

        Raises:
            RequestError: The vendor does not support the conversation.
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
        """Return the canisters of a request. Raises RequestError."""
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
        """Translate the end of a conversation by itself.

        Returns:
            The messages with the name of their field, and the losses; ``None`` if they cannot be
            separated from other fields.
        """
        end = request.canisters[start:]
        is_opened = not isinstance(end[0], _Words)  # some vendors require that the user begins
        canisters = (_OPENING, *end) if is_opened else end
        try:
            written = self._writer.nativize(attrs.evolve(request, canisters=canisters), model)
        except RequestError:
            return None  # translating the whole reports the right path
        if len(written.value) != 1:
            return None
        ((field, messages),) = written.value.items()
        if not isinstance(messages, list):
            return None
        losses = _shift(written.losses, start - is_opened)
        place = f"canisters[{start}]"
        if not is_opened and any(loss.path.startswith(place) for loss in losses):
            return None  # all of the user's text may have been left out
        return (field, messages[is_opened:]), losses

    def _keep(
        self,
        before: _Written | None,
        request: Request,
        translation: Translation[JsonObject],
        model: ModelDescriptor,
    ) -> None:
        """Cache all but the last turn, if its separate translation is the same as here."""
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
        kept = messages[: -len(end)]
        theirs = set(losses)
        lost = [loss for loss in translation.losses if loss not in theirs]
        weight = _weigh(kept if before is None else kept[len(before.messages) :])
        if lost:  # whatever is not among the messages is a loss, and is kept with its canister
            weight += _weigh(canisters[start:cut])
        in_run = not isinstance(canisters[cut], _Words)
        stays = before is not None and before.in_run != in_run
        # The cached part is copied, as several ends may be added to one beginning.
        ids = set() if before is None else set(before.ids) if stays else before.ids
        ids.update(_list_ids(canisters[start:cut]))
        written = _Written(
            canisters=canisters[:cut],
            rest=_survey_rest(request),
            native={**translation.value, field: []},
            messages=kept,
            losses=tuple(lost),
            ids=ids,
            weight=weight if before is None else weight + before.weight,
            in_run=in_run,
        )
        # Cache one beginning for each state of the conversation; the user's new messages need only
        # one.
        others = [each for each in self._kept if each is not before]
        if before is not None and stays:
            others.insert(0, before)
        self._kept = (written, *others[: KEPT - 1])
        SHELF.put(self, sum(each.weight for each in self._kept))

    def forget(self) -> None:
        """Clear the cache."""
        self._kept = ()


@frozen
class _Tools:
    """The tools of a request, translated."""

    invocables: tuple[InvocableDescription, ...]
    rest: tuple[object, ...]
    translation: Translation[JsonObject]


class WrittenTools:
    """Writes tools like another processor, but reuses the translation of the last request's.

    Args:
        writer: Translates the tools; its output depends on nothing else.
    """

    def __init__(
        self, writer: FunctionProcessor[tuple[tuple[InvocableDescription, ...], str]]
    ) -> None:
        self._writer = writer
        self._kept: _Tools | None = None

    def nativize(self, request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        """Return the tools and the choice; they may be those of an earlier request.

        Raises:
            RequestError: The native data of an invocable are invalid.
        """
        invocables, kept = request.invocables, self._kept
        if not invocables:
            return self._writer.nativize(request, model)
        rest = (request.invocation_choice, request.controls, request.schema, request.native)
        if (
            kept is not None
            and len(kept.invocables) == len(invocables)
            and all(map(operator.is_, kept.invocables, invocables))
            and kept.rest == rest
        ):
            return kept.translation
        translation = self._writer.nativize(request, model)
        self._kept = _Tools(invocables, rest, translation)
        SHELF.put(self, 2 * _weigh(translation.value))  # the descriptions are about as large
        return translation

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Return the tools and the choice of a request. Raises RequestError."""
        return self._writer.normalize(native, model)

    def forget(self) -> None:
        """Clear the cache."""
        self._kept = None


def keep_written(processors: Processors) -> Processors:
    """Return processors for one model that reuse translations of messages and of tools."""
    messages, invocations = processors.messages, processors.invocations
    if isinstance(messages, FunctionProcessor) and messages.is_additive:
        messages = WrittenMessages(messages)
    if isinstance(invocations, FunctionProcessor) and invocations.is_verbatim:
        invocations = WrittenTools(invocations)
    return attrs.evolve(processors, messages=messages, invocations=invocations)


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
    """Return the start of a turn near the end; ``start`` if nothing before it can be cached."""
    # A client may change its last messages when it continues: some move marks for caches.
    end = len(canisters) - 1
    best = max(start, end - MARGIN)
    places = itertools.chain(range(best, start, -1), range(end, best, -1))
    return next((index for index in places if _is_cut(canisters, index)), start)


def _is_cut(canisters: Sequence[AnyCanister], index: int) -> bool:
    """Return whether a turn begins here: with a user's message, or after all results."""
    earlier, now = canisters[index - 1], canisters[index]
    if isinstance(now, _Words):
        return not isinstance(earlier, (*_Words, SupervisorCanister))
    is_owed = isinstance(earlier, ResultCanister) and earlier.owner is Owner.OURS
    return is_owed and not isinstance(now, ResultCanister)


def _is_settled(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether the owner of uploaded files is settled: their vendor has answered."""
    for canister in reversed(canisters):
        if canister.origin is not None:
            return True
        if any(getattr(content, "file_id", None) is not None for content in canister.content):
            return False
    return True


def _weigh(value: object) -> int:
    """Return the size of messages, tools or canisters in MessagePack, which is quickly written."""
    try:
        return len(msgspec.msgpack.encode(value))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return SHELF.limit + 1  # cannot be encoded for its vendor either; it is not cached


def _list_ids(canisters: Sequence[AnyCanister]) -> list[str]:
    if {*map(type, canisters)}.isdisjoint((InvocationCanister, ResultCanister)):
        return []
    return [
        canister.invocation_id
        for canister in canisters
        if isinstance(canister, (InvocationCanister, ResultCanister))
    ]


def _shift(losses: Sequence[Loss], start: int) -> list[Loss]:
    """Return losses of a part, with their paths in the whole."""

    def move(found: re.Match[str]) -> str:
        return f"canisters[{int(found[1]) + start}]"

    return [attrs.evolve(loss, path=_PLACE.sub(move, loss.path)) for loss in losses]
