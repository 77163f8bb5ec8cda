"""Reading of a client's conversation: a reader for each request, and a loop over its messages.

A request may have thousands of messages, and all are read at each turn. So their canisters are made
without validation, from parts that are checked here. They all have the time of the request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeVar, cast

import attrs

from vibe_llms.dialects.prefix_cache import CHANGEABLE_MESSAGES, MIN_MESSAGES, ClientPrefixes
from vibe_llms.dialects.serving import DECODING_ERRORS, PlainTranslation, explain_invalid
from vibe_llms.dialects.unanswered import WaitingInvocations
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import is_encodable
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, CacheHint, Native, TextualContent
from vibe_llms.messages.identities import access_now, produce_identities, produce_identity
from vibe_llms.messages.losses import Loss, Translation
from vibe_llms.messages.trusting import find_setter, list_defaults

# A canister is made of a copy of its class's fields, and only those that differ are set. This takes
# three quarters of the time of setting each field.
_new: Final = object.__new__
_set_fields: Final = find_setter(UserCanister)  # all canisters have the same
_set_text_fields: Final = find_setter(TextualContent)
_copy_text: Final = list_defaults(TextualContent).copy
_copy_user: Final = list_defaults(UserCanister).copy
_copy_supervisor: Final = list_defaults(SupervisorCanister).copy
_copy_answer: Final = list_defaults(AssistantCanister).copy
_copy_call: Final = list_defaults(InvocationCanister).copy
_copy_result: Final = list_defaults(ResultCanister).copy

_CLASSES: Final[Mapping[str, tuple[type[AnyCanister], Callable[[], dict[str, Any]]]]] = {
    "user": (UserCanister, _copy_user),
    "system": (SupervisorCanister, _copy_supervisor),
    "assistant": (AssistantCanister, _copy_answer),
}
TEXT_ROLES: Final = frozenset(_CLASSES)
"""Roles for :meth:`ConversationReader.add_text`."""

_ID_BATCH_SIZE: Final = 64


def _are_texts(first: Any, second: Any, third: Any = "") -> bool:
    return (
        first.__class__ is str
        and second.__class__ is str
        and third.__class__ is str
        and (first.isascii() or is_encodable(first))
        and (second.isascii() or is_encodable(second))
        and (third.isascii() or is_encodable(third))
    )


@define
class ConversationReader:
    """Collects the canisters of one request; the base class of the dialects' readers.

    Attributes:
        canisters: The canisters so far.
        losses: The losses so far.
        moment: The time of the request, which all of its canisters have.
        is_plain: Whether each canister has at most one content, a text, and no native data.
    """

    canisters: list[AnyCanister] = attrs.field(factory=list)
    losses: list[Loss] = attrs.field(factory=list)
    moment: datetime = attrs.field(factory=access_now)
    is_plain: bool = attrs.field(default=True, init=False)
    _unused_ids: list[str] = attrs.field(factory=list, init=False)

    def read(self, item: Any, index: int) -> None:
        """Add the canisters of one item. Raises RequestError, or one of ``DECODING_ERRORS``."""
        raise NotImplementedError

    def fork(self) -> Self:
        """Return an independent reader that continues from the state of this reader."""
        copy = object.__new__(self.__class__)
        for field in attrs.fields(self.__class__):
            value = getattr(self, field.name)
            is_mutable = isinstance(value, (list, dict, WaitingInvocations))
            setattr(copy, field.name, value.copy() if is_mutable else value)
        copy._unused_ids = []  # both would use the same
        return copy

    def draw_id(self) -> str:
        """Return a new random id."""
        return (self._unused_ids or self._fill_ids()).pop()

    def _fill_ids(self) -> list[str]:
        """Return ids that are unused; make several at once in a long conversation."""
        if len(self.canisters) < _ID_BATCH_SIZE:
            return [produce_identity()]
        self._unused_ids = produce_identities(_ID_BATCH_SIZE)
        return self._unused_ids

    def add_text(self, role: str, text: str) -> None:
        """Add a message of one of ``TEXT_ROLES`` that has only a text. Raises RequestError."""
        if not (text.isascii() or is_encodable(text)):
            TextualContent(text)  # raises the error
        fields = _copy_text()
        fields["text"] = text
        content = _new(TextualContent)
        _set_text_fields(content, fields)
        kind, copy_fields = _CLASSES[role]
        fields = copy_fields()
        fields["timestamp"] = self.moment
        fields["content"] = (content,)
        fields["id"] = (self._unused_ids or self._fill_ids()).pop()
        if role == "assistant":
            fields["turn_id"] = (self._unused_ids or self._fill_ids()).pop()
        canister = _new(kind)
        _set_fields(canister, fields)
        self.canisters.append(canister)

    def add_user(self, contents: Sequence[AnyContent], native: Native | None) -> None:
        """Add a message of the user."""
        self._append(UserCanister, _copy_user(), contents, native)

    def add_supervisor(self, contents: Sequence[AnyContent], native: Native | None) -> None:
        """Add instructions."""
        self._append(SupervisorCanister, _copy_supervisor(), contents, native)

    def add_answer(
        self, contents: Sequence[AnyContent], turn_id: str, native: Native | None
    ) -> None:
        """Add a message of the model."""
        fields = _copy_answer()
        fields["turn_id"] = turn_id
        self._append(AssistantCanister, fields, contents, native)

    def add_call(
        self,
        invocation_id: Any,
        name: Any,
        arguments: Any,
        turn_id: str,
        native: Native | None,
        form: Literal["json", "text"] = "json",
        hint: CacheHint | None = None,
    ) -> None:
        """Add a call of one of our invocables. Raises RequestError if a field is not a text."""
        if not _are_texts(invocation_id, name, arguments):  # the constructor raises the error
            InvocationCanister(invocation_id=invocation_id, name=name, arguments=arguments)
        fields = _copy_call()
        fields["turn_id"] = turn_id
        fields["invocation_id"] = invocation_id
        fields["name"] = name
        fields["arguments"] = arguments
        fields["form"] = form
        self._append(InvocationCanister, fields, () if hint is None else (hint,), native)

    def add_result(
        self,
        content: Sequence[AnyContent],
        invocation_id: Any,
        name: Any,
        native: Native | None,
        *,
        is_error: bool = False,
    ) -> None:
        """Add the result of such a call. Raises RequestError if a field is not a text."""
        if not _are_texts(
            invocation_id, "" if name is None else name
        ):  # the constructor validates them
            ResultCanister(invocation_id=invocation_id, name=name)
        fields = _copy_result()
        fields["invocation_id"] = invocation_id
        fields["name"] = name
        fields["is_error"] = is_error
        self._append(ResultCanister, fields, content, native)

    def add_canister(self, canister: AnyCanister) -> None:
        """Add any other canister."""
        self.is_plain = False
        self.canisters.append(canister)

    def finish(self) -> Translation[tuple[AnyCanister, ...]]:
        """Return the canisters that were read."""
        make = PlainTranslation if self.is_plain else Translation
        return make(tuple(self.canisters), self.losses)

    def _append(
        self,
        kind: type[AnyCanister],
        fields: dict[str, Any],
        contents: Sequence[AnyContent],
        native: Native | None,
    ) -> None:
        fields["timestamp"] = self.moment
        fields["content"] = tuple(contents)
        fields["id"] = (self._unused_ids or self._fill_ids()).pop()
        fields["native"] = native
        if native is not None or (
            contents and (len(contents) > 1 or contents[0].__class__ is not TextualContent)
        ):
            self.is_plain = False
        canister = _new(kind)
        _set_fields(canister, fields)
        self.canisters.append(canister)


_Reader = TypeVar("_Reader", bound=ConversationReader)


def read_each(
    reader: _Reader,
    items: Iterable[Any],
    *,
    kind: str,
    field: str,
    protocol: str,
    context: object = None,
    cache: ClientPrefixes | None = None,
) -> _Reader:
    """Read the items of a request in their order; return the reader with the canisters.

    Args:
        kind: The name of an item, for errors.
        field: The field with the items.
        protocol: The protocol whose reference defines the items.
        context: Other parts of the request that affect how the items are read, as plain data.
        cache: Cache of the client's earlier requests. A beginning that is equal is not read again.

    Raises:
        RequestError: An item is invalid; the error names its position.
    """
    lookup = None
    if cache is not None and isinstance(items, list) and len(items) >= MIN_MESSAGES:
        lookup = cache.look_up(protocol, context, items)
    if lookup is None or not isinstance(items, list):
        _read_items(reader, items, 0, kind, field, protocol)
        return reader
    start = 0
    if lookup.stage is not None:
        reader, start = cast("_Reader", lookup.stage.reader.fork()), lookup.stage.count
    cut = len(items) - CHANGEABLE_MESSAGES
    if start < cut:
        _read_items(reader, items[start:cut], start, kind, field, protocol)
        lookup.record(cut, reader.fork())
        start = cut
    if start < len(items):
        _read_items(reader, items[start:], start, kind, field, protocol)
        lookup.record(len(items), reader.fork())
    lookup.finish()
    return reader


def _read_items(
    reader: ConversationReader,
    items: Iterable[Any],
    start: int,
    kind: str,
    field: str,
    protocol: str,
) -> None:
    index, read = start - 1, reader.read
    iterator = iter(items)  # outside the try: an error here is not about one item
    try:
        for item in iterator:
            index += 1
            read(item, index)
    except ConverseError:
        raise
    except DECODING_ERRORS as error:
        path = f"{field}[{index}]"
        raise explain_invalid(f"The {kind} at {path}", protocol, path, error) from error
