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
    AssistantCanister,
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
from vibe_llms.messages.views import list_content_classes, list_plain_texts
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.providers.memory_budgets import MemoryBudget

MAX_CACHED: Final = 8
"""Maximum conversations, or forks of one, whose translations are cached for a model."""

MEMORY_BUDGET: Final = MemoryBudget(64_000_000)
"""Shared limit for the caches of all models, in bytes of the translated conversations."""

MIN_CANISTERS: Final = 16
"""Minimum canisters to cache: translating fewer again costs less than caching them."""

CHANGEABLE_CANISTERS: Final = 5
"""Last canisters of a request that may differ in the next one: some clients move cache marks."""

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


@frozen
class _TranslatedRequest:
    """A translated request, whose beginning a later request may share.

    Most are never continued. So its conversation is not split before a request continues it.

    Attributes:
        request: The request.
        translation: Its translation.
        size: Approximate size of its conversation in bytes.
    """

    request: Request
    translation: Translation[JsonObject]
    size: int


class IncrementalMessages:
    """Messages processor that reuses the translations of another one.

    Args:
        writer: Translates the new messages; it is additive.
    """

    def __init__(self, writer: FunctionProcessor[tuple[AnyCanister, ...]]) -> None:
        self._writer = writer
        # A tuple that is replaced as a whole, because threads may share a model.
        self._cached: tuple[_TranslatedRequest, ...] = ()

    def nativize(self, request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
        """Return the fields with the conversation; they may share parts with earlier results.

        Raises:
            RequestError: The vendor does not support the conversation.
        """
        canisters = request.canisters
        if len(canisters) < MIN_CANISTERS or request.continuation:
            return self._writer.nativize(request, model)
        previous, shared = self._find_previous(canisters)
        translation = None
        if previous is not None:
            translation = self._continue(previous, shared, request, model)
        if translation is None:
            translation = self._writer.nativize(request, model)
        self._cache(previous, shared, request, translation)
        return translation

    def normalize(
        self, native: JsonObject, model: ModelDescriptor
    ) -> Translation[tuple[AnyCanister, ...]]:
        """Return the canisters of a request. Raises RequestError."""
        return self._writer.normalize(native, model)

    def _find_previous(
        self, canisters: Sequence[AnyCanister]
    ) -> tuple[_TranslatedRequest | None, int]:
        """Return the earlier request that shares the longest beginning, and its length."""
        previous, longest = None, 0
        for each in self._cached:
            shared = _count_shared(each.request.canisters, canisters)
            if shared > longest:
                previous, longest = each, shared
        return previous, longest

    def _continue(
        self, previous: _TranslatedRequest, shared: int, request: Request, model: ModelDescriptor
    ) -> Translation[JsonObject] | None:
        """Translate what follows the shared beginning; ``None`` if that cannot be reused.

        A translation of the earlier request in two parts must give equal messages.
        """
        earlier, canisters = previous.request, request.canisters
        split = _find_split(earlier.canisters, canisters, shared)
        if not split or _list_other_fields(earlier) != _list_other_fields(request):
            return None
        beginning, end = canisters[:split], canisters[split:]
        # A late result, or an id that is used twice, would change the translation of the beginning.
        ids = _list_ids(end)
        if ids and not set(ids).isdisjoint(_list_ids(beginning)):
            return None
        has_media = not list_content_classes(canisters).isdisjoint(MEDIA_CLASSES)
        if has_media and not _is_owner_of_files_known(beginning):
            return None
        last = self._write_end(earlier, split, model)
        if last is None:
            return None
        (field, last_messages), last_losses = last
        messages = previous.translation.value.get(field)
        count = len(last_messages)
        if not count or not isinstance(messages, list) or messages[-count:] != last_messages:
            return None
        new = self._write_end(request, split, model)
        if new is None or new[0][0] != field:
            return None
        (_, new_messages), new_losses = new
        lost_at_end = set(last_losses)
        losses = [loss for loss in previous.translation.losses if loss not in lost_at_end]
        native = {**previous.translation.value, field: [*messages[:-count], *new_messages]}
        return Translation(native, (*losses, *new_losses))

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
        previous: _TranslatedRequest | None,
        shared: int,
        request: Request,
        translation: Translation[JsonObject],
    ) -> None:
        """Cache a translation, in place of that of the request that it continues."""
        others, canisters = self._cached, request.canisters
        forked = () if previous is None else previous.request.canisters[shared:]
        if previous is None or len(forked) > CHANGEABLE_CANISTERS:
            size = _weigh(canisters)
        else:
            size = previous.size - _weigh(forked) + _weigh(canisters[shared:])
            others = tuple(each for each in others if each is not previous)
        translated = _TranslatedRequest(request, translation, size)
        self._cached = (translated, *others[: MAX_CACHED - 1])
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


def _count_shared(earlier: Sequence[AnyCanister], later: Sequence[AnyCanister]) -> int:
    """Return how many canisters at the beginning of two conversations are equal."""
    if earlier[0].id != later[0].id:  # as in most conversations
        return 0
    if later[: len(earlier)] == earlier:
        return len(earlier)
    pairs = enumerate(zip(earlier, later, strict=False))
    different = (index for index, (one, other) in pairs if one is not other and one != other)
    return next(different, min(len(earlier), len(later)))


def _find_split(earlier: Sequence[AnyCanister], later: Sequence[AnyCanister], shared: int) -> int:
    """Return the index of the last turn to begin within the beginning that two requests share.

    0 if there is none, or if what follows in the earlier request, which is translated again, is
    longer than the beginning. A turn may begin within a run, because the model is still calling
    tools: some vendors need less of the run after the user's next message.
    """
    starts = (
        index for index in range(shared - 1, len(earlier) // 2, -1) if _begins_turn(later, index)
    )
    start = next(starts, 0)
    if not start or isinstance(later[start], _InputCanisters):
        return start
    if not (_may_end_run(earlier[start:]) or _may_end_run(later[start:])):
        return start
    return next((index for index in starts if isinstance(later[index], _InputCanisters)), 0)


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


def _weigh(canisters: Sequence[AnyCanister]) -> int:
    """Return the approximate size of canisters and their translation, which share their texts."""
    texts = list_plain_texts(canisters, allows_native=True)
    size = sum(map(str.__sizeof__, filter(None, texts))) + _MESSAGE_BYTES * len(texts)
    if texts != list_plain_texts(canisters):  # answers have native data
        size += _weigh_natives([each for each in canisters if type(each) is AssistantCanister])
    if all(texts):
        return size
    calls = [each for each in canisters if type(each) is InvocationCanister]
    size += sum([each.arguments.__sizeof__() for each in calls]) + _weigh_natives(calls)
    others: list[AnyCanister] = [each for each in calls if each.content]
    if len(calls) < texts.count(None):
        pairs = zip(canisters, texts, strict=True)
        others += [
            each for each, text in pairs if text is None and type(each) is not InvocationCanister
        ]
    return size + 2 * _measure(others) if others else size


def _weigh_natives(canisters: Sequence[AssistantCanister | InvocationCanister]) -> int:
    """Return the size of native data, twice, as they are decoded for the translation."""
    return 2 * sum([each.native.data.__sizeof__() for each in canisters if each.native is not None])


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
