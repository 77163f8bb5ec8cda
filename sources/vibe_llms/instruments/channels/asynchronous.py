"""A channel for asynchronous code: questions in a continuing conversation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self, TypeVar, Unpack, overload

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.engine.generating import EventListener
from vibe_llms.exceptions import RequestError, Stage
from vibe_llms.foundation.async_closing import Closing
from vibe_llms.foundation.reprs import represent
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.instruments.channels.composing import Composing, compose_without_blocking
from vibe_llms.instruments.channels.continuing import ContinuedConversation, add_parser
from vibe_llms.instruments.channels.replies import Reply
from vibe_llms.instruments.channels.reply_following import ReplyFollowing
from vibe_llms.instruments.engines import (
    Engine,
    EngineSettings,
    Tool,
)
from vibe_llms.instruments.inputs import Input, gather_canisters
from vibe_llms.instruments.models import AnyModel, read_model
from vibe_llms.instruments.parsers.modes import ModeChoice
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.invocables.approvals import Approval
from vibe_llms.invocables.ensembles import list_tools
from vibe_llms.messages.canisters import (
    AnyCanister,
)

T = TypeVar("T")


class ChannelSettings(EngineSettings, total=False):
    """Settings of a channel except its model and parser; see :class:`AsyncChannel`."""

    prompt: Composing | str | None
    tools: Iterable[Tool] | Tool
    conversation: Conversation | None


class AsyncChannel(ContinuedConversation[T], Closing):
    """A model with a prompt, a parser, tools and a conversation that continues.

    ::

        channel = AsyncChannel("local:smollm2", prompt="Describe {{ place }}.", parser=City)
        reply = await channel.ask(place="the capital of France")
        print(reply.value.name)

    A channel renders the prompt and runs the conversation with an :class:`.Engine`. As an
    asynchronous context manager, the channel keeps its tools connected between questions.

    Args:
        model: Its address, a :class:`.Model`, or a model of a provider.
        prompt: A template for the variables of each question: a :class:`.Prompt` or its text.
        parser: The type of answers: a :class:`.Parser` or a class; by default text.
        tools: Functions, invokers and ensembles.
        conversation: The start of the conversation; the channel continues a copy of it.
        settings: Further arguments of :class:`.Engine`: ``store``, ``approver``, ``limits``,
            ``reactors``, ``listener``, ``stream``, ``application``, ``controls`` …

    Attributes:
        conversation: Its current state.
        waits: Whether to wait while the disk is full instead of failing.
    """

    @overload
    def __init__(
        self: AsyncChannel[str],
        model: AnyModel = "",
        *,
        parser: None = None,
        **settings: Unpack[ChannelSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncChannel[T],
        model: AnyModel = "",
        *,
        parser: Parser[T] | type[T],
        **settings: Unpack[ChannelSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncChannel[Any],
        model: AnyModel = "",
        *,
        parser: object,
        **settings: Unpack[ChannelSettings],
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
        _check_settings(settings)
        if "schema" in settings or "invocation_choice" in settings:
            raise RequestError(
                path="settings",
                detail="A channel accepts neither a schema nor a choice of invocations.",
                remedy="Pass a parser: Parser(schema) makes one of a JSON Schema.",
                stage=Stage.CONFIGURE,
            )
        super().__init__(
            Conversation() if conversation is None else conversation.copy(),
            parser if parser is None or isinstance(parser, Parser) else Parser[Any](parser),
        )
        self.prompt = _read_prompt(prompt)
        self._shared = _SharedEngine(model, tools, self.parser, settings)
        self._turn = asyncio.Lock()

    def __repr__(self) -> str:
        return represent(type(self).__name__, (("", self._shared.model), ("", self.conversation)))

    async def ask(self, message: Input | None = None, /, **variables: Any) -> Reply[T]:
        """Ask and return the reply; the conversation continues from there.

        Args:
            message: A text, contents or canisters.
            variables: Values for the prompt; the rendered prompt precedes ``message``.

        Raises:
            ParseError: The answer is invalid and was not corrected.
            ConverseError: The request failed. The question is in the conversation: :meth:`resume`
                asks it again.
        """
        # Composed before the lock is acquired: this may take a while, and uses no shared state.
        return await self._ask(await self._compose(message, variables))

    async def _ask(
        self, composed: Sequence[AnyCanister], on_event: EventListener | None = None
    ) -> Reply[T]:
        async with self._turn:
            engine, choice = await self._shared.access()
            return await self._ask_with(engine, choice, composed, on_event)

    @asynccontextmanager
    async def follow(
        self, message: Input | None = None, /, **variables: Any
    ) -> AsyncIterator[ReplyFollowing[T]]:
        """Ask and stream the partial value, also after tool calls.

        Leaving the context stops the run.

        ::

            async with channel.follow("How is the weather in Rome?") as following:
                async for partial in following:
                    print(partial.degrees)
                reply = await following.reply()

        Accepts the arguments of :meth:`ask`.

        Raises:
            RequestError: The channel has no parser. To stream text, use a ``listener``.
        """
        composed = await self._compose(message, variables)
        async with self._follow(composed) as following:
            yield following

    def _follow(self, composed: Sequence[AnyCanister]) -> ReplyFollowing[T]:
        if self.parser is None:
            raise RequestError(
                path="parser",
                detail="A channel without a parser has no partial values.",
                remedy="Pass a parser; to follow text, use a listener or reactors.",
                stage=Stage.CONFIGURE,
            )
        return ReplyFollowing(self.parser, partial(self._ask, composed))

    async def resume(self, *approvals: Approval) -> Reply[T]:
        """Continue the conversation after a limit, an error or a suspension.

        Args:
            approvals: Answers to open approval requests.

        Raises:
            ParseError: The answer is invalid and was not corrected.
            ConverseError: The request failed.
        """
        async with self._turn:
            engine, choice = await self._shared.access()
            return await self._answer_with(engine, choice, (), approvals)

    def fork(self, from_index: int | None = None) -> AsyncChannel[T]:
        """Return a channel with a fork of the conversation; see
        :meth:`.Conversation.fork`.

        The copy shares the tools; closing the first channel disconnects the tools for both.
        """
        forked: AsyncChannel[T] = AsyncChannel.__new__(type(self))
        forked.prompt, forked.parser, forked._shared = self.prompt, self.parser, self._shared
        forked.conversation = self.conversation.fork(from_index)
        forked.waits, forked._turn = self.waits, asyncio.Lock()
        return forked

    def __copy__(self) -> Self:
        copied = self.__class__.__new__(self.__class__)
        copied.__setstate__({**self.__getstate__(), "conversation": self.conversation.copy()})
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # The fork shares the model and the tools.
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_turn"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _turn=asyncio.Lock())

    async def close(self) -> None:
        """Disconnect the tools and close the model."""
        await self._shared.close()

    async def __aenter__(self) -> Self:
        await self._shared.open()
        return self

    async def _compose(
        self, message: Input | None, variables: dict[str, Any]
    ) -> tuple[AnyCanister, ...]:
        composed: tuple[AnyCanister, ...] = ()
        if variables and self.prompt is None:
            raise RequestError(
                path="variables",
                detail=f"The channel has no prompt for {', '.join(sorted(variables))}.",
                remedy="Pass a prompt to the channel, or ask with a text.",
                stage=Stage.CONFIGURE,
            )
        if self.prompt is not None and (variables or message is None):
            composed = await compose_without_blocking(self.prompt, variables)
        if message is not None:
            composed = (*composed, *gather_canisters(message))
        if not composed:
            raise RequestError(
                path="message",
                detail="The question is missing.",
                remedy="Ask with a text, or with the variables of a prompt.",
                stage=Stage.CONFIGURE,
            )
        return composed


def _check_settings(settings: Mapping[str, Any]) -> None:
    known = EngineSettings.__optional_keys__
    for name in settings.keys() - known:
        raise TypeError(f"Unknown setting {name!r}{suggest(name, known)}")


def _read_prompt(prompt: Composing | str | None) -> Composing | None:
    if not isinstance(prompt, str):
        return prompt
    from vibe_llms.instruments.prompts import Prompt  # Jinja imports slowly

    return Prompt(prompt)


class _SharedEngine:
    """The engine of a channel and its forks, created on first use."""

    def __init__(
        self,
        model: AnyModel,
        tools: Iterable[Tool] | Tool,
        parser: Parser[Any] | None,
        settings: dict[str, Any],
    ) -> None:
        application = settings.get("application")
        self.model = read_model(model, application)
        self._tools: tuple[Tool, ...] = list_tools(tools)
        self._parser = parser
        self._settings = settings
        self._engine: Engine | None = None
        self._choice: ModeChoice | None = None

    def __getstate__(self) -> dict[str, Any]:
        # The copy creates its own engine: connected tools belong to a process.
        return {**self.__dict__, "_engine": None, "_choice": None}

    async def access(self) -> tuple[Engine, ModeChoice | None]:
        """Return the engine, and the mode of structured output.

        Raises:
            CapabilityError: The model is known to lack the mode that the parser requires.
        """
        if self._engine is None:
            self._engine = await self._produce_engine()
        return self._engine, self._choice

    async def _produce_engine(self) -> Engine:
        engine = Engine(self.model, self._tools, **self._settings)
        if self._parser is None:
            return engine
        engine, self._choice = await add_parser(engine, self._parser)
        return engine

    async def open(self) -> None:
        """Connect the tools, so that they stay connected."""
        engine, _ = await self.access()
        await engine.__aenter__()

    async def close(self) -> None:
        """Disconnect the tools and release the model."""
        if self._engine is not None:
            await self._engine.close()
