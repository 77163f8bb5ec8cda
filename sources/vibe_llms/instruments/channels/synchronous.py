"""A channel for synchronous code: the same behind the portal."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, overload

from vibe_llms.asynchrony import access_portal
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.instruments.channels.asynchronous import AsyncChannel
from vibe_llms.instruments.channels.composing import Composing
from vibe_llms.instruments.channels.replies import Reply
from vibe_llms.instruments.engines import Tool
from vibe_llms.instruments.inputs import Input
from vibe_llms.instruments.models import AnyModel
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables.approvals import Approval

T = TypeVar("T")


class SyncChannel(Generic[T]):
    """The same for synchronous code. It works anywhere, also where an event loop runs.

    Takes what :class:`.AsyncChannel` takes; use it as a context manager, or close it at the end.
    """

    @overload
    def __init__(
        self: SyncChannel[str],
        model: AnyModel = "",
        *,
        prompt: Composing | str | None = None,
        parser: None = None,
        tools: Iterable[Tool] | Tool = (),
        conversation: Conversation | None = None,
        **settings: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SyncChannel[T],
        model: AnyModel = "",
        *,
        prompt: Composing | str | None = None,
        parser: Parser[T] | type[T],
        tools: Iterable[Tool] | Tool = (),
        conversation: Conversation | None = None,
        **settings: Any,
    ) -> None: ...
    @overload
    def __init__(
        self: SyncChannel[Any],
        model: AnyModel = "",
        *,
        prompt: Composing | str | None = None,
        parser: object,
        tools: Iterable[Tool] | Tool = (),
        conversation: Conversation | None = None,
        **settings: Any,
    ) -> None: ...
    def __init__(
        self,
        model: AnyModel = "",
        *,
        prompt: Composing | str | None = None,
        parser: Any = None,
        tools: Iterable[Tool] | Tool = (),
        conversation: Conversation | None = None,
        **settings: Any,
    ) -> None:
        self._channel: AsyncChannel[Any] = AsyncChannel(
            model,
            prompt=prompt,
            parser=parser,
            tools=tools,
            conversation=conversation,
            **settings,
        )

    def __repr__(self) -> str:
        return repr(self._channel).replace("Async", "Sync", 1)

    @property
    def conversation(self) -> Conversation:
        """The present state of the conversation."""
        return self._channel.conversation

    def ask(self, said: Input | None = None, /, **variables: Any) -> Reply[T]:
        """Asks, and returns what came of it; see :meth:`.AsyncChannel.ask`."""
        return access_portal().call(lambda: self._channel.ask(said, **variables))

    def resume(self, *approvals: Approval) -> Reply[T]:
        """Goes on with the conversation as it is; see :meth:`.AsyncChannel.resume`."""
        return access_portal().call(lambda: self._channel.resume(*approvals))

    def fork(self, from_index: int | None = None) -> SyncChannel[T]:
        """Produces a channel that goes its own way; see :meth:`.AsyncChannel.fork`."""
        forked: SyncChannel[T] = SyncChannel.__new__(type(self))
        forked._channel = self._channel.fork(from_index)
        return forked

    def close(self) -> None:
        """Disconnects the tools, and frees what the model holds and nobody else needs."""
        access_portal().call(self._channel.close)

    def __enter__(self) -> Self:
        access_portal().call(self._channel.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
