"""What a model can do with a parser: answer with a value in place of words."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast, overload

from vibe_llms.asynchrony import access_portal

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from vibe_llms.instruments.inputs import Input
    from vibe_llms.instruments.models import Model, RequestOptions
    from vibe_llms.instruments.parsers.dialogue import Dialogue, Listener, Parsed
    from vibe_llms.instruments.parsers.parsers import Parser
    from vibe_llms.instruments.parsers.sessions import Following, SyncFollowing
    from vibe_llms.messages.requests import Request

T = TypeVar("T")


class ParsingModel:
    """What :class:`.Model` can do with a parser."""

    @overload
    async def parse(
        self,
        prompt: Input | Request,
        kind: Parser[T] | type[T],
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> T: ...
    @overload
    async def parse(
        self,
        prompt: Input | Request,
        kind: object,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...
    async def parse(
        self,
        prompt: Input | Request,
        kind: Any,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Asks, and returns the answer as a value.

        An answer that does not fit is quoted to the model with its faults, to be mended.

        Args:
            kind: What the answer shall become: a type, a JSON Schema, or a :class:`.Parser`,
                which has more to say.
            listener: Called with each :class:`.Attempt`.

        Raises:
            ParseError: No answer fits.
            ConverseError: No answer, or not to its end.
        """
        parsed = await self.parse_with_response(prompt, kind, listener=listener, **options)
        return parsed.value

    @overload
    async def parse_with_response(
        self,
        prompt: Input | Request,
        kind: Parser[T] | type[T],
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Parsed[T]: ...
    @overload
    async def parse_with_response(
        self,
        prompt: Input | Request,
        kind: object,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Parsed[Any]: ...
    async def parse_with_response(
        self,
        prompt: Input | Request,
        kind: Any,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Parsed[Any]:
        """Returns the value with its response, the mode, and all attempts; see :meth:`parse`."""
        from vibe_llms.instruments.parsers.dialogue import converse

        dialogue = await self._begin(prompt, kind, listener, **options)
        return await converse(cast("Model", self).converse, dialogue)

    @overload
    def follow(
        self,
        prompt: Input | Request,
        kind: Parser[T] | type[T],
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> AbstractAsyncContextManager[Following[T]]: ...
    @overload
    def follow(
        self,
        prompt: Input | Request,
        kind: object,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> AbstractAsyncContextManager[Following[Any]]: ...
    @asynccontextmanager
    async def follow(
        self,
        prompt: Input | Request,
        kind: Any,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> AsyncIterator[Following[Any]]:
        """Asks, and shows what has arrived of the value; leaving the context stops the answer.

        ::

            async with model.follow("Tell me about Paris.", City) as following:
                async for partial in following:
                    print(partial.name)
                city = await following.value()
        """
        from vibe_llms.instruments.parsers.sessions import Following

        dialogue = await self._begin(prompt, kind, listener, **options)
        following = Following(dialogue, cast("Model", self).stream)
        try:
            yield following
        finally:
            await following.close()

    async def _begin(
        self,
        prompt: Input | Request,
        kind: Any,
        listener: Listener | None,
        **options: Unpack[RequestOptions],
    ) -> Dialogue[Any]:
        from vibe_llms.instruments.parsers.dialogue import Dialogue
        from vibe_llms.instruments.parsers.parsers import Parser

        parser = kind if isinstance(kind, Parser) else Parser(kind)
        model = cast("Model", self)
        request = model.request(prompt, **options)
        attributes = (await model.access()).descriptor.attributes
        composed, choice = parser.compose(request, attributes)
        return Dialogue(parser=parser, request=composed, choice=choice, listener=listener)


class SyncParsingModel:
    """What :class:`.SyncModel` can do with a parser."""

    _model: Model

    @overload
    def parse(
        self,
        prompt: Input | Request,
        kind: Parser[T] | type[T],
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> T: ...
    @overload
    def parse(
        self,
        prompt: Input | Request,
        kind: object,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...
    def parse(
        self,
        prompt: Input | Request,
        kind: Any,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Asks, and returns the answer as a value; see :meth:`.Model.parse`."""
        return self.parse_with_response(prompt, kind, listener=listener, **options).value

    @overload
    def parse_with_response(
        self,
        prompt: Input | Request,
        kind: Parser[T] | type[T],
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Parsed[T]: ...
    @overload
    def parse_with_response(
        self,
        prompt: Input | Request,
        kind: object,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Parsed[Any]: ...
    def parse_with_response(
        self,
        prompt: Input | Request,
        kind: Any,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Parsed[Any]:
        """Returns the value with all that led to it; see :meth:`.Model.parse_with_response`."""
        ask = self._model.parse_with_response
        return access_portal().call(lambda: ask(prompt, kind, listener=listener, **options))

    @overload
    def follow(
        self,
        prompt: Input | Request,
        kind: Parser[T] | type[T],
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> AbstractContextManager[SyncFollowing[T]]: ...
    @overload
    def follow(
        self,
        prompt: Input | Request,
        kind: object,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> AbstractContextManager[SyncFollowing[Any]]: ...
    @contextmanager
    def follow(
        self,
        prompt: Input | Request,
        kind: Any,
        *,
        listener: Listener | None = None,
        **options: Unpack[RequestOptions],
    ) -> Iterator[SyncFollowing[Any]]:
        """Asks, and shows what has arrived of the value; see :meth:`.Model.follow`."""
        from vibe_llms.instruments.parsers.sessions import SyncFollowing

        portal = access_portal()
        context = self._model.follow(prompt, kind, listener=listener, **options)
        following = portal.call(context.__aenter__)
        try:
            yield SyncFollowing(following)
        finally:
            portal.release(lambda: context.__aexit__(None, None, None))
