"""A channel for synchronous code: a wrapper of the asynchronous channel."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, Unpack, overload

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.foundation.sync_faces import SyncFace, blocking
from vibe_llms.instruments.channels.asynchronous import AsyncChannel, ChannelSettings
from vibe_llms.instruments.engines import entering_reply
from vibe_llms.instruments.models import AnyModel
from vibe_llms.instruments.parsers.parsers import Parser

T = TypeVar("T")


class SyncChannel(SyncFace[AsyncChannel[T]], Generic[T]):
    """A channel for synchronous code, with the arguments of :class:`.AsyncChannel`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @overload
    def __init__(
        self: SyncChannel[str],
        model: AnyModel = "",
        *,
        parser: None = None,
        **settings: Unpack[ChannelSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: SyncChannel[T],
        model: AnyModel = "",
        *,
        parser: Parser[T] | type[T],
        **settings: Unpack[ChannelSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: SyncChannel[Any],
        model: AnyModel = "",
        *,
        parser: object,
        **settings: Unpack[ChannelSettings],
    ) -> None: ...
    def __init__(self, model: AnyModel = "", **settings: Any) -> None:
        super().__init__(AsyncChannel(model, **settings))

    @property
    def conversation(self) -> Conversation:
        """The current state of the conversation."""
        return self.asynchronous.conversation

    ask = blocking(AsyncChannel[T].ask)
    follow = entering_reply(AsyncChannel[T].follow)
    resume = blocking(AsyncChannel[T].resume)
    close = blocking(AsyncChannel[T].close)

    def fork(self, from_index: int | None = None) -> SyncChannel[T]:
        """Return a channel with a fork of the conversation; see :meth:`.AsyncChannel.fork`."""
        forked: SyncChannel[T] = SyncChannel.__new__(type(self))
        SyncFace.__init__(forked, self.asynchronous.fork(from_index))
        return forked
