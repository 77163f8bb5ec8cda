"""Reading of a client's conversation: a reader for each request, and a loop over its messages.

A request may have thousands of messages, and all are read at each turn. So their canisters are made
without validation, from parts that are checked here. They all have the time of the request.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal, Self, TypeVar, cast

import attrs

from vibe_llms.dialects.plain import OURS
from vibe_llms.dialects.prefix_cache import CHANGEABLE_MESSAGES, MIN_MESSAGES, ClientPrefixes
from vibe_llms.dialects.serving import DECODING_ERRORS, PlainTranslation, explain_invalid
from vibe_llms.dialects.unanswered import WaitingInvocations
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import is_encodable
from vibe_llms.foundation.slotted_classes import find_draft
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
from vibe_llms.messages.trusting import trusted
from vibe_llms.messages.views import remember_plain

TEXT_ROLES: Final = ("user", "assistant", "system")
"""Roles of messages in most protocols; see :attr:`ConversationReader.text_roles`."""

_make_user: Final = trusted(UserCanister)
_make_supervisor: Final = trusted(SupervisorCanister)
_make_answer: Final = trusted(AssistantCanister)
_TextDraft: Final = find_draft(TextualContent)
_UserDraft: Final = find_draft(UserCanister)
_AnswerDraft: Final = find_draft(AssistantCanister)
_CallDraft: Final = find_draft(InvocationCanister)
_ResultDraft: Final = find_draft(ResultCanister)

_MAX_IDS: Final = 64
"""Maximum ids to make at once."""


@define
class ConversationReader:
    """Collects the canisters of one request; the base class of the dialects' readers.

    Attributes:
        canisters: The canisters so far.
        texts: For each canister, its text if it is plain; see :func:`.list_plain_texts`.
        losses: The losses so far.
        moment: The time of the request, which all of its canisters have.
        text_roles: Roles of messages that :meth:`read_all` reads itself if they have only a text;
            :meth:`read` may change them for the next messages.
        is_plain: Whether each canister has at most one content, a text, and no native data.
        index: The index of the item that :meth:`read` reads.
    """

    canisters: list[AnyCanister] = attrs.field(factory=list)
    texts: list[str | None] = attrs.field(factory=list, init=False)
    losses: list[Loss] = attrs.field(factory=list)
    moment: datetime = attrs.field(factory=access_now)
    text_roles: tuple[str, ...] = attrs.field(default=(), init=False)
    is_plain: bool = attrs.field(default=True, init=False)
    index: int = attrs.field(default=0, init=False)
    _unused_ids: list[str] = attrs.field(factory=list, init=False)

    def read(self, item: Any, index: int) -> None:
        """Add the canisters of one item. Raises RequestError, or one of ``DECODING_ERRORS``."""
        raise NotImplementedError

    def fork(self) -> Self:
        """Return an independent reader that continues from the state of this reader."""
        copy = object.__new__(self.__class__)
        for name in _list_fields(self.__class__):
            value = getattr(self, name)
            kind = value.__class__
            is_mutable = kind is list or kind is dict or kind is WaitingInvocations
            setattr(copy, name, value.copy() if is_mutable else value)
        copy._unused_ids = []  # both would use the same
        return copy

    def draw_id(self) -> str:
        """Return a new random id."""
        return (self._unused_ids or self._fill_ids()).pop()

    def _fill_ids(self) -> list[str]:
        """Return ids that are unused: in a long conversation many at once, as one is slow."""
        count = min(1 + len(self.canisters), _MAX_IDS)
        self._unused_ids += produce_identities(count) if count > 1 else (produce_identity(),)
        return self._unused_ids

    def read_all(self, items: Iterable[tuple[int, Any]]) -> None:
        """Add the canisters of numbered items. Raises as :meth:`read`.

        Most messages have only a role and a text. They are read here, and as :meth:`read` would
        read them, but in a third of the time.
        """
        roles, moment, append, read = self.text_roles, self.moment, self.canisters.append, self.read
        ids, fill_ids, append_text = self._unused_ids, self._fill_ids, self.texts.append
        for index, item in items:
            if not (
                roles
                and type(item) is dict
                and len(item) == 2
                and type(text := item.get("content")) is str
                and text
                and (role := item.get("role")) in roles
                and (text.isascii() or is_encodable(text))
            ):
                self.index = index
                read(item, index)
                roles = self.text_roles
                continue
            content = _TextDraft()
            content.type = "text"
            content.text = text
            content.mime_type = "text/plain"
            content.citations = ()
            content.native = None
            content.__class__ = TextualContent
            if role == "user":
                user = _UserDraft()
                user.role = "user"
                user.timestamp = moment
                user.content = (content,)
                user.id = (ids or fill_ids()).pop()
                user.native = None
                user.__class__ = UserCanister
                append(user)
                append_text(text)
            elif role == "assistant":
                answer = _AnswerDraft()
                answer.role = "assistant"
                answer.timestamp = moment
                answer.content = (content,)
                answer.id = (ids or fill_ids()).pop()
                answer.native = None
                answer.origin = None
                answer.turn_id = (ids or fill_ids()).pop()
                answer.__class__ = AssistantCanister
                append(answer)
                append_text(text)
            else:
                self.add_supervisor((content,), None)

    def add_user(self, contents: Sequence[AnyContent], native: Native | None) -> None:
        """Add a message of the user."""
        self._append(
            _make_user(
                timestamp=self.moment,
                content=tuple(contents),
                id=(self._unused_ids or self._fill_ids()).pop(),
                native=native,
            )
        )

    def add_supervisor(self, contents: Sequence[AnyContent], native: Native | None) -> None:
        """Add instructions."""
        self._append(
            _make_supervisor(
                timestamp=self.moment,
                content=tuple(contents),
                id=(self._unused_ids or self._fill_ids()).pop(),
                native=native,
            )
        )

    def add_answer(
        self, contents: Sequence[AnyContent], turn_id: str, native: Native | None
    ) -> None:
        """Add a message of the model."""
        self._append(
            _make_answer(
                timestamp=self.moment,
                content=tuple(contents),
                id=(self._unused_ids or self._fill_ids()).pop(),
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
        hint: CacheHint | None = None,
    ) -> None:
        """Add a call of one of our invocables. Raises RequestError if a field is not a text."""
        if not (
            invocation_id.__class__ is name.__class__ is arguments.__class__ is str
            and invocation_id.isascii()
            and name.isascii()
            and arguments.isascii()
        ):  # the constructor validates them
            InvocationCanister(invocation_id=invocation_id, name=name, arguments=arguments)
        call = _CallDraft()  # not by `trusted`: to pass so many fields by name is slow
        call.role = "invocation"
        call.timestamp = self.moment
        call.content = () if hint is None else (hint,)
        call.id = (self._unused_ids or self._fill_ids()).pop()
        call.origin = None
        call.turn_id = turn_id
        call.native = native
        call.invocation_id = invocation_id
        call.name = name
        call.arguments = arguments
        call.form = form
        call.owner = OURS
        call.__class__ = InvocationCanister
        if native is not None or hint is not None:
            self.is_plain = False
        self.canisters.append(call)
        self.texts.append(None)

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
        if not (
            invocation_id.__class__ is str
            and invocation_id.isascii()
            and (name is None or (name.__class__ is str and name.isascii()))
        ):  # the constructor validates them
            ResultCanister(invocation_id=invocation_id, name=name)
        result = _ResultDraft()
        result.role = "result"
        result.timestamp = self.moment
        result.content = tuple(content)
        result.id = (self._unused_ids or self._fill_ids()).pop()
        result.origin = None
        result.turn_id = None
        result.native = native
        result.invocation_id = invocation_id
        result.name = name
        result.is_error = is_error
        result.owner = OURS
        result.__class__ = ResultCanister
        self._append(result)

    def add_canister(self, canister: AnyCanister) -> None:
        """Add any other canister."""
        self.is_plain = False
        self.canisters.append(canister)
        self.texts.append(None)

    def finish(self) -> Translation[tuple[AnyCanister, ...]]:
        """Return the canisters that were read."""
        canisters = tuple(self.canisters)
        if not self.is_plain:
            return Translation(canisters, self.losses)
        remember_plain(canisters, self.texts)
        return PlainTranslation(canisters, self.losses)

    def _append(self, canister: AnyCanister) -> None:
        text = None
        if canister.native is not None:
            self.is_plain = False
        elif contents := canister.content:
            content = contents[0]
            if len(contents) > 1 or type(content) is not TextualContent:
                self.is_plain = False
            elif (
                content.native is None
                and content.mime_type == "text/plain"
                and not content.citations
            ):
                text = content.text
        self.canisters.append(canister)
        self.texts.append(text)


def _list_names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in attrs.fields(kind))


_list_fields: Final[Callable[[Any], tuple[str, ...]]] = functools.cache(_list_names)


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

    The cache may keep that reader: it must not be changed.

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
        lookup = cache.look_up(protocol, context, items, field)
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
        lookup.record(len(items), reader)
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
    numbered = enumerate(items, start)  # outside the try: an error here is not about one item
    try:
        reader.read_all(numbered)
    except ConverseError:
        raise
    except DECODING_ERRORS as error:
        path = f"{field}[{reader.index}]"
        raise explain_invalid(f"The {kind} at {path}", protocol, path, error) from error
