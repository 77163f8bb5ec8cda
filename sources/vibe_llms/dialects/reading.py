"""Reading of a client's conversation: a reader for each request, and a loop over its messages.

A request may have thousands of messages, and all are read at each turn. So their canisters are made
without validation, from parts that are checked here. They all have the time of the request.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeVar, cast

import attrs

from vibe_llms.dialects.prefix_cache import CHANGEABLE_MESSAGES, MIN_MESSAGES, ClientPrefixes
from vibe_llms.dialects.serving import DECODING_ERRORS, explain_invalid
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
from vibe_llms.messages.contents import AnyContent, Native
from vibe_llms.messages.identities import access_now, produce_identity
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.trusting import trusted

_make_user: Final = trusted(UserCanister)
_make_supervisor: Final = trusted(SupervisorCanister)
_make_answer: Final = trusted(AssistantCanister)
_make_call: Final = trusted(InvocationCanister)
_make_result: Final = trusted(ResultCanister)


def _are_texts(*values: Any) -> bool:
    for each in values:
        if each.__class__ is not str or not (each.isascii() or is_encodable(each)):
            return False
    return True


@define
class ConversationReader:
    """Collects the canisters of one request; the base class of the dialects' readers.

    Attributes:
        canisters: The canisters so far.
        losses: The losses so far.
        moment: The time of the request, which all of its canisters have.
    """

    canisters: list[AnyCanister] = attrs.field(factory=list)
    losses: list[Loss] = attrs.field(factory=list)
    moment: datetime = attrs.field(factory=access_now)

    def read(self, item: Any, index: int) -> None:
        """Add the canisters of one item. Raises RequestError, or one of ``DECODING_ERRORS``."""
        raise NotImplementedError

    def fork(self) -> Self:
        """Return an independent reader that continues from here."""
        copy = object.__new__(self.__class__)
        for field in attrs.fields(self.__class__):
            value = getattr(self, field.name)
            is_mutable = isinstance(value, (list, dict, WaitingInvocations))
            setattr(copy, field.name, value.copy() if is_mutable else value)
        return copy

    def add_user(self, contents: Iterable[AnyContent], native: Native | None) -> None:
        """Add a message of the user."""
        self.canisters.append(
            _make_user(
                timestamp=self.moment,
                content=tuple(contents),
                id=produce_identity(),
                native=native,
            )
        )

    def add_supervisor(self, contents: Iterable[AnyContent], native: Native | None) -> None:
        """Add instructions."""
        self.canisters.append(
            _make_supervisor(
                timestamp=self.moment,
                content=tuple(contents),
                id=produce_identity(),
                native=native,
            )
        )

    def add_answer(
        self, contents: Iterable[AnyContent], turn_id: str, native: Native | None
    ) -> None:
        """Add a message of the model."""
        self.canisters.append(
            _make_answer(
                timestamp=self.moment,
                content=tuple(contents),
                id=produce_identity(),
                turn_id=turn_id,
                native=native,
            )
        )

    def add_call(
        self,
        invocation_id: Any,
        name: Any,
        arguments: Any,
        turn_id: str,
        native: Native | None,
        form: Literal["json", "text"] = "json",
    ) -> None:
        """Add a call of one of our invocables. Raises RequestError if a field is not a text."""
        make = _make_call if _are_texts(invocation_id, name, arguments) else InvocationCanister
        self.canisters.append(
            make(
                timestamp=self.moment,
                content=(),
                id=produce_identity(),
                invocation_id=invocation_id,
                name=name,
                arguments=arguments,
                form=form,
                turn_id=turn_id,
                native=native,
            )
        )

    def add_result(
        self,
        content: Iterable[AnyContent],
        invocation_id: Any,
        name: Any,
        native: Native | None,
        *,
        is_error: bool = False,
    ) -> None:
        """Add the result of such a call. Raises RequestError if a field is not a text."""
        is_plain = _are_texts(invocation_id) and (name is None or _are_texts(name))
        make = _make_result if is_plain else ResultCanister
        self.canisters.append(
            make(
                timestamp=self.moment,
                content=tuple(content),
                id=produce_identity(),
                invocation_id=invocation_id,
                name=name,
                is_error=is_error,
                native=native,
            )
        )


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
    if cache is None or not isinstance(items, list) or len(items) < MIN_MESSAGES:
        _read_items(reader, items, 0, kind, field, protocol)
        return reader
    lookup, start = cache.look_up(protocol, context, items), 0
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
