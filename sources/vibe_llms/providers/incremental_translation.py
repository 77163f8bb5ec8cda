"""Incremental translation: reuse already translated messages and tools.

A vendor receives the whole conversation at each turn, and most of it was sent before. Reusing the
translation of that part is faster than repeating it. It also repeats the bytes exactly, which
matters because vendors' prompt caches compare bytes.

This requires that a conversation can be split between two turns: the messages of the whole
conversation are the messages of the first part followed by the messages of the second part, with
each invocation next to its result. A processor declares that it works so
(:attr:`.FunctionProcessor.is_additive`). Unusual conversations are translated as a whole.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Sequence
from typing import Final, cast

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
from vibe_llms.messages.contents import MEDIA_CLASSES
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.messages.views import has_calls, list_content_classes, list_plain_texts
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.memory_budgets import MemoryBudget

MAX_CACHED: Final = 8
"""Maximum conversations, or forks of one, whose translations are cached for a model."""

MEMORY_BUDGET: Final = MemoryBudget(64_000_000)
"""Shared limit for the caches of all models, in bytes of the translated conversations."""

MIN_CANISTERS: Final = 16
"""Minimum canisters to cache: translating fewer again costs less than caching them."""

UNCACHED_CANISTERS: Final = 5
"""Canisters before the last one that are not cached in long conversations."""

_MESSAGE_BYTES: Final = 64
"""Estimated size of a message without its text."""

_MEASURED: Final = 128
"""Messages that are measured at a time."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_PLACE: Final = re.compile(r"canisters\[(\d+)\]")
_InputCanisters = (UserCanister, DocumentCanister)
_RunEndings = (*_InputCanisters, SupervisorCanister)
"""Canisters after which a run of calls is over; vendors may get late instructions as the user's."""
_OPENING: Final = UserCanister("?")
"""A user's message to put before canisters of the model; its translation is removed afterwards."""


@frozen(kw_only=True)
class _TranslatedBeginning:
    """The translated beginning of a conversation.

    Attributes:
        canisters: The canisters of the beginning.
        other_fields: The request's other fields that affected the translation.
        native: The vendor's fields that hold the conversation, with an empty list of messages.
        messages: The vendor's messages.
        losses: Losses of the translation.
        ids: Ids of all invocations in the beginning.
        size: Size of the beginning in bytes.
        is_within_run: Whether the next canister is not the user's, because the model is still
            calling tools. After the user's next message, some vendors need less of the run.
    """

    canisters: tuple[AnyCanister, ...]
    other_fields: tuple[object, ...]
    native: JsonObject
    messages: list[JsonValue]
    losses: tuple[Loss, ...]
    ids: frozenset[str]
    size: int
    is_within_run: bool

    def precedes(self, request: Request) -> bool:
        """Return whether a request continues this beginning, so that it can be reused."""
        count, canisters = len(self.canisters), request.canisters
        if len(canisters) <= count or canisters[:count] != self.canisters:
            return False
        if not _begins_turn(canisters, count) or self.other_fields != _list_other_fields(request):
            return False
        new = canisters[count:]
        if self.is_within_run:
            if _may_end_run(new):
                return False
        elif not isinstance(new[0], _InputCanisters):
            return False
        # A late result, or an id that is used twice, would change the translation of the beginning.
        return self.ids.isdisjoint(_list_ids(new))


class IncrementalMessages:
    """Messages processor that reuses the translations of another one.

    Args:
        writer: Translates the new messages; it is additive.
    """

    def __init__(self, writer: FunctionProcessor[tuple[AnyCanister, ...]]) -> None:
        self._writer = writer
        # A tuple that is replaced as a whole, because threads may share a model.
        self._cached: tuple[_TranslatedBeginning, ...] = ()

    def nativize(self, request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        """Return the fields with the conversation; they may share parts with earlier results.

        Raises:
            RequestError: The vendor does not support the conversation.
        """
        if len(request.canisters) < MIN_CANISTERS or request.continuation:
            return self._writer.nativize(request, model)
        previous = next((each for each in self._cached if each.precedes(request)), None)
        translation = None if previous is None else self._continue(previous, request, model)
        if translation is None:
            previous = None
            translation = self._writer.nativize(request, model)
        self._cache(previous, request, translation, model)
        return translation

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Return the canisters of a request. Raises RequestError."""
        return self._writer.normalize(native, model)

    def _continue(
        self, previous: _TranslatedBeginning, request: Request, model: ModelDescriptor
    ) -> Translation[JsonObject] | None:
        translated = self._write_end(request, len(previous.canisters), model)
        if translated is None:
            return None
        (field, messages), losses = translated
        native = {**previous.native, field: [*previous.messages, *messages]}
        return Translation(native, (*previous.losses, *losses))

    def _write_end(
        self, request: Request, start: int, model: ModelDescriptor
    ) -> tuple[tuple[str, list[JsonValue]], list[Loss]] | None:
        """Translate only the end of a conversation.

        Returns:
            The messages with the name of their field, and the losses; ``None`` if they cannot be
            separated from other fields.
        """
        end = request.canisters[start:]
        # Some vendors require that the user begins.
        opening = () if isinstance(end[0], _InputCanisters) else (_OPENING,)
        # The caller's request was checked, and the rest of its conversation is the same.
        part = evolve_unchecked(request, canisters=(*opening, *end))
        try:
            translated = self._writer.nativize(part, model)
        except RequestError:
            return None  # translating the whole reports the right path
        if len(translated.value) != 1:
            return None
        ((field, messages),) = translated.value.items()
        if not isinstance(messages, list):
            return None
        losses = _shift_paths(translated.losses, start - len(opening))
        path = f"canisters[{start}]"
        if not opening and any(loss.path.startswith(path) for loss in losses):
            return None  # the user's message may have been left out
        # The opening, if any, became the first message.
        return (field, messages[len(opening) :]), losses

    def _cache(
        self,
        previous: _TranslatedBeginning | None,
        request: Request,
        translation: Translation[JsonObject],
        model: ModelDescriptor,
    ) -> None:
        """Cache all but the last turn, if a translation in two parts gives equal messages."""
        start = 0 if previous is None else len(previous.canisters)
        canisters = request.canisters
        split = _find_split(canisters, start)
        if split <= start:
            return
        end = canisters[split:]
        if not isinstance(end[0], _InputCanisters) and _may_end_run(end):
            return  # what follows has changed the translation of this run
        has_media = not list_content_classes(canisters).isdisjoint(MEDIA_CLASSES)
        if has_media and not _is_owner_of_files_known(canisters[start:split]):
            return
        last = self._write_end(request, split, model)
        if last is None:
            return
        (field, messages_of_end), losses = last
        messages = translation.value.get(field)
        size_of_end = len(messages_of_end)
        if not size_of_end or not isinstance(messages, list):
            return
        if messages[-size_of_end:] != messages_of_end:
            return
        cached = messages[:-size_of_end]
        end_losses = set(losses)
        cached_losses = [loss for loss in translation.losses if loss not in end_losses]
        texts = list_plain_texts(canisters)[start:split]
        if None in texts:
            size = _measure(cached if previous is None else cached[len(previous.messages) :])
        else:
            size = _measure_texts(cast("Sequence[str]", texts))
        if cached_losses:  # contents that were lost are not in the messages, but in the canisters
            size += _measure(canisters[start:split])
        is_within_run = not isinstance(canisters[split], _InputCanisters)
        keeps_previous = previous is not None and previous.is_within_run != is_within_run
        ids = frozenset() if previous is None else previous.ids
        if has_calls(canisters):
            ids = ids.union(_list_ids(canisters[start:split]))
        translated = _TranslatedBeginning(
            canisters=canisters[:split],
            other_fields=_list_other_fields(request),
            native={**translation.value, field: []},
            messages=cached,
            losses=tuple(cached_losses),
            ids=ids,
            size=size if previous is None else size + previous.size,
            is_within_run=is_within_run,
        )
        # The new beginning replaces the previous beginning, unless only one of the two ends within
        # a run.
        other_beginnings = [each for each in self._cached if each is not previous]
        if previous is not None and keeps_previous:
            other_beginnings.insert(0, previous)
        self._cached = (translated, *other_beginnings[: MAX_CACHED - 1])
        MEMORY_BUDGET.set_size(self, sum(each.size for each in self._cached))

    def clear(self) -> None:
        """Clear the cache."""
        self._cached = ()


@frozen
class _Tools:
    """The translated tools of a request, with the fields that affected the translation."""

    invocables: tuple[InvocableDescription, ...]
    other_fields: tuple[object, ...]
    translation: Translation[JsonObject]


class CachedTools:
    """Invocations processor that reuses the last translation of another one.

    Args:
        writer: Translates the tools. Its output depends only on the tools, the choice, the
            controls, the schema and the native fields of a request.
    """

    def __init__(
        self, writer: FunctionProcessor[tuple[tuple[InvocableDescription, ...], str]]
    ) -> None:
        self._writer = writer
        self._cached: _Tools | None = None

    def nativize(self, request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        """Return the tools and the choice, possibly from an earlier request.

        Raises:
            RequestError: The native data of an invocable are invalid.
        """
        invocables, cached = request.invocables, self._cached
        if not invocables:
            return self._writer.nativize(request, model)
        other_fields = (
            request.invocation_choice,
            request.controls,
            request.schema,
            request.native,
        )
        if (
            cached is not None
            and len(cached.invocables) == len(invocables)
            and all(map(operator.is_, cached.invocables, invocables))
            and cached.other_fields == other_fields
        ):
            return cached.translation
        translation = self._writer.nativize(request, model)
        self._cached = _Tools(invocables, other_fields, translation)
        # Twice, as the cached descriptions are about as large as their translation.
        MEMORY_BUDGET.set_size(self, 2 * _measure(translation.value))
        return translation

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Return the tools and the choice of a request. Raises RequestError."""
        return self._writer.normalize(native, model)

    def clear(self) -> None:
        """Clear the cache."""
        self._cached = None


def cache_translations(processors: Processors) -> Processors:
    """Return processors for one model that reuse translations of messages and of tools."""
    messages, invocations = processors.messages, processors.invocations
    if isinstance(messages, FunctionProcessor) and messages.is_additive:
        messages = IncrementalMessages(messages)
    if isinstance(invocations, FunctionProcessor) and invocations.is_verbatim:
        invocations = CachedTools(invocations)
    return attrs.evolve(processors, messages=messages, invocations=invocations)


def _list_other_fields(request: Request) -> tuple[object, ...]:
    """Return the fields of a request, other than the canisters, that affect the messages."""
    return (
        request.model,
        request.controls,
        request.invocables,
        request.invocation_choice,
        request.schema,
        request.native,
    )


def _find_split(canisters: Sequence[AnyCanister], start: int) -> int:
    """Return the index near the end of a conversation at which the cached beginning ends.

    A turn begins at the index; without a turn that begins after ``start``, the index is ``start``.
    """
    # Some clients move cache markers, and so change the last messages in the next request.
    end = len(canisters) - 1
    preferred = max(start, end - UNCACHED_CANISTERS)
    places = itertools.chain(range(preferred, start, -1), range(end, preferred, -1))
    return next((index for index in places if _begins_turn(canisters, index)), start)


def _begins_turn(canisters: Sequence[AnyCanister], index: int) -> bool:
    """Return whether a turn begins at an index: with a user's message, or after all results."""
    earlier, current = canisters[index - 1], canisters[index]
    if isinstance(current, _InputCanisters):
        return not isinstance(earlier, (*_InputCanisters, SupervisorCanister))
    follows_result = isinstance(earlier, ResultCanister) and earlier.owner is Owner.OURS
    return follows_result and not isinstance(current, ResultCanister)


def _is_owner_of_files_known(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether a model has answered after the last uploaded file, if there is one.

    The origin of the answer names the vendor that stores the file. Until then, the translation of
    the file may change.
    """
    for canister in reversed(canisters):
        if canister.origin is not None:
            return True
        if any(getattr(content, "file_id", None) is not None for content in canister.content):
            return False
    return True


def _measure(value: object) -> int:
    """Return the size of messages, tools or canisters as MessagePack, which is fast to encode."""
    try:
        if not isinstance(value, (list, tuple)):
            return len(msgspec.msgpack.encode(value))
        # Parts into the same memory: a new megabyte for each conversation takes twice as long.
        buffer, size = bytearray(), 0
        for start in range(0, len(value), _MEASURED):
            _ENCODER.encode_into(value[start : start + _MEASURED], buffer)
            size += len(buffer)
        return size
    except (TypeError, ValueError, OverflowError, RecursionError):
        # It cannot be encoded for the vendor either; a size over the limit prevents caching.
        return MEMORY_BUDGET.limit + 1


def _measure_texts(texts: Sequence[str]) -> int:
    """Return the approximate size of messages with one text each, which is faster."""
    sizes = map(len if all(map(str.isascii, texts)) else _count_bytes, texts)
    return sum(sizes) + _MESSAGE_BYTES * len(texts)


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _may_end_run(canisters: Sequence[AnyCanister]) -> bool:
    """Return whether a vendor may get one of these canisters as the user's, which ends a run.

    A result without its call is sent as a text of the user.
    """
    called: set[str] = set()
    for canister in canisters:
        if isinstance(canister, _RunEndings):
            return True
        if isinstance(canister, InvocationCanister):
            called.add(canister.invocation_id)
        elif isinstance(canister, ResultCanister) and canister.invocation_id not in called:
            return True
    return False


def _list_ids(canisters: Sequence[AnyCanister]) -> list[str]:
    return [
        canister.invocation_id
        for canister in canisters
        if type(canister) is InvocationCanister or type(canister) is ResultCanister
    ]


def _shift_paths(losses: Sequence[Loss], start: int) -> list[Loss]:
    """Return the losses of a part with their paths in the whole conversation."""

    def move(found: re.Match[str]) -> str:
        return f"canisters[{int(found[1]) + start}]"

    return [attrs.evolve(loss, path=_PLACE.sub(move, loss.path)) for loss in losses]
